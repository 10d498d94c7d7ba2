// Findings: what to change, with links from the evidence to the part of the page that shows it.
import { follow, isKnown } from "./anchors";
import type { Finding, Findings, Gain, Job } from "./data";
import { type Child, empty, foreign, h, lines, printable, section } from "./dom";
import * as format from "./format";

export function makeFindings({ findings }: Findings, job: Job): HTMLElement {
  const element = section("findings", "Findings", findings.length ? "What to change, largest gain first. Each piece of evidence links to the part of the page that shows it." : null);
  if (findings.length === 0) element.append(empty("No problems found. millrace advise --rules lists what the rules look for."));
  element.append(...findings.map((finding, index) => makeCard(finding, index, job)));
  return element;
}

function makeCard(finding: Finding, index: number, job: Job): HTMLElement {
  const ways = waysOf(finding);
  return h("article", { class: `finding finding-${known(finding.severity)}`, id: `finding-${index}`, "data-rule": finding.rule },
    h("header", {},
      h("span", { class: "badge" }, printable(finding.severity)),
      h("h3", {}, foreign(finding.title)),
      gainOf(ways[0]!)),
    ...ways.flatMap((way, rank) => [rank > 0 || way !== finding ? headOf(way, rank) : null, changesOf(way, job)]),
    evidenceOf(finding),
    ...ways.map((way) => (way === finding ? why(way, "Why this was reported") : why(way, `Why: ${way.title}`, evidenceOf(way)))));
}

// The finding itself and the other ways to save the same seconds, largest gain first.
export function waysOf(finding: Finding): Finding[] {
  return [finding, ...(finding.also ?? [])].sort((a, b) => b.gain.saved_ns - a.gain.saved_ns);
}

export function saving(gain: Gain): string {
  return `saves up to ${format.duration(gain.saved_ns)}, ${format.percent(gain.share)} of ${gain.of === "training time" ? gain.of : "the wall time"}`;
}

function headOf(way: Finding, rank: number): Child {
  return h("p", { class: "way" }, h("strong", {}, rank === 0 ? "First: " : "Or: "), foreign(way.title), rank === 0 ? null : gainOf(way));
}

function why(finding: Finding, title: string, facts: Child = null): Child {
  return h("details", {}, h("summary", {}, printable(title)), facts,
    h("dl", { class: "facts" },
      h("dt", {}, "Rule"), h("dd", {}, foreign(finding.rule, { class: "code" })),
      h("dt", {}, "Threshold"), h("dd", {}, lines(finding.threshold)),
      h("dt", {}, "Gain"), h("dd", {}, lines(finding.gain.how || "cannot be estimated"))));
}

// Class names consist of known words only.
function known(severity: string): string {
  return ["problem", "warning", "note"].includes(severity) ? severity : "note";
}

function gainOf({ gain, severity }: Finding): Child {
  if (gain.saved_ns > 0) return h("span", { class: "gain", title: printable(gain.how) }, saving(gain));
  if (severity === "note") return null;  // costs nothing
  return h("span", { class: "gain gain-unknown", title: printable(gain.how) }, "the gain cannot be estimated");
}

function evidenceOf(finding: Finding): Child {
  return h("ul", { class: "evidence" }, ...finding.evidence.map(({ text, where }) => h("li", {}, evidence(text, where))));
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
