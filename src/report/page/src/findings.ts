// Findings: what to change, with links from the evidence to the part of the page that shows it.
import { follow, isKnown } from "./anchors";
import type { Finding, Findings, Job } from "./data";
import { type Child, empty, foreign, h, lines, printable, section } from "./dom";
import * as format from "./format";

export function makeFindings({ findings }: Findings, job: Job): HTMLElement {
  const element = section("findings", "Findings", findings.length ? "What to change, largest gain first. Each piece of evidence links to the part of the page that shows it." : null);
  if (findings.length === 0) element.append(empty("No problems found. millrace advise --rules lists what the rules look for."));
  element.append(...findings.map((finding, index) => makeCard(finding, index, job)));
  return element;
}

function makeCard(finding: Finding, index: number, job: Job): HTMLElement {
  return h("article", { class: `finding finding-${known(finding.severity)}`, id: `finding-${index}`, "data-rule": finding.rule },
    h("header", {},
      h("span", { class: "badge" }, printable(finding.severity)),
      h("h3", {}, foreign(finding.title)),
      gainOf(finding)),
    changesOf(finding, job),
    h("ul", { class: "evidence" }, ...finding.evidence.map(({ text, where }) => h("li", {}, evidence(text, where)))),
    h("details", {}, h("summary", {}, "Why this was reported"),
      h("dl", { class: "facts" },
        h("dt", {}, "Rule"), h("dd", {}, foreign(finding.rule, { class: "code" })),
        h("dt", {}, "Threshold"), h("dd", {}, lines(finding.threshold)),
        h("dt", {}, "Gain"), h("dd", {}, lines(finding.gain.how || "not estimated")))));
}

// Class names consist of known words only.
function known(severity: string): string {
  return ["problem", "warning", "note"].includes(severity) ? severity : "note";
}

function gainOf({ gain }: Finding): Child {
  if (gain.saved_ns <= 0) return null;
  return h("span", { class: "gain", title: printable(gain.how) },
    `saves up to ${format.duration(gain.saved_ns)} (${format.percent(gain.share)})`);
}

function evidence(text: string, where: string): Child {
  if (!where || !isKnown(where)) return foreign(text);
  return h("a", {
    href: "#", "data-where": where, title: `shown at ${printable(where)}`,
    click: (event: MouseEvent) => {
      event.preventDefault();
      follow(where);
    },
  }, foreign(text, { title: "" }));
}

// Changes for the job's framework come first.
function changesOf({ changes }: Finding, job: Job): Child {
  if (changes.length === 0) return null;
  const fits = (framework: string): number => (framework === job.framework ? 0 : framework === "any" ? 1 : 2);
  const ordered = changes.slice().sort((a, b) => fits(a.framework) - fits(b.framework));
  return h("dl", { class: "changes" }, ...ordered.flatMap(({ framework, text }) => [
    h("dt", {}, framework === "any" ? "do" : printable(framework)), h("dd", {}, lines(text))]));
}
