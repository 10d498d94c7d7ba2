// The page of a report: unpacks its data and assembles its parts.
import "uplot/dist/uPlot.min.css";
import "./style.css";
import { loadData, type PageData } from "./data";
import { empty, h, printable, section } from "./dom";
import { makeEpochs } from "./epochs";
import { makeFiles, makeRanks } from "./files";
import { makeFindings } from "./findings";
import { makeFlame } from "./flame";
import { makeFunctions } from "./functions";
import { startKeys } from "./keys";
import { makeOverTime } from "./overtime";
import { makePatterns } from "./patterns";
import { startPrinting } from "./print";
import { TimeRange } from "./range";
import { makeSplit } from "./split";
import { makeSummary } from "./summary";
import { startTheme, toggleTheme } from "./theme";

const PARTS: [string, string][] = [["summary", "Summary"], ["findings", "Findings"], ["time", "Time"], ["over-time", "Over time"],
  ["epochs", "Epochs"], ["functions", "Functions"], ["access", "Access"], ["files", "Files"], ["ranks", "Ranks"], ["tree", "Call tree"]];

function build({ profile, findings, detail }: PageData): void {
  const range = new TimeRange(Math.max(1, profile.job.wall_ns));
  let redraw = (): void => undefined;
  const help = startKeys(range);
  const makers: Record<string, () => HTMLElement | null> = {
    "time": () => makeSplit(profile),
    "over-time": () => {
      const views = makeOverTime(profile, detail, range);
      redraw = views.redraw;
      return views.element;
    },
    "epochs": () => makeEpochs(profile, range), "functions": () => makeFunctions(profile),
    "access": () => makePatterns(profile), "files": () => makeFiles(profile), "ranks": () => makeRanks(profile),
    "tree": () => makeFlame(profile.tree), "summary": () => makeSummary(profile, findings, detail.origin_ns),
    // Last, because findings need the evidence to be registered.
    "findings": () => makeFindings(findings, profile.job),
  };
  const parts: Record<string, HTMLElement | null> = {};
  for (const [id, make] of Object.entries(makers)) parts[id] = guarded(id, make);
  const there = PARTS.filter(([id]) => parts[id]);
  document.title = `Millrace: ${printable(profile.job.command || profile.job.traces.join(" ") || "report").slice(0, 120)}`;
  document.body.replaceChildren(makeHeader(there, findings.findings.length, () => help.showModal()),
    h("main", { id: "main" }, ...there.map(([id]) => parts[id])),
    h("footer", {}, "Made by millrace report. The same figures are in millrace report --json."), help);
  startPrinting(() => redraw());
}

// Data that one part cannot show, for example from another version of Millrace, must not hide the other parts.
function guarded(id: string, make: () => HTMLElement | null): HTMLElement | null {
  try {
    return make();
  } catch (error) {
    console.error(error);
    const title = PARTS.find(([part]) => part === id)?.[1] ?? id;
    return section(id, title, null, empty(`This part cannot be shown: ${error instanceof Error ? error.message : String(error)}`));
  }
}

function makeHeader(parts: [string, string][], findings: number, showHelp: () => void): HTMLElement {
  return h("header", { class: "top" },
    h("a", { class: "skip", href: "#main" }, "to the report"),
    h("span", { class: "brand" }, "Millrace"),
    h("nav", { "aria-label": "parts of the report" }, ...parts.map(([id, title]) =>
      h("a", { href: `#${id}` }, title, id === "findings" && findings > 0 && h("span", { class: "count" }, findings)))),
    h("button", { type: "button", id: "help-button", title: "keys (?)", "aria-label": "keys", click: showHelp }, "?"),
    h("button", { type: "button", id: "theme-button", title: "light or dark (d)", "aria-label": "light or dark", click: toggleTheme }, "◐"));
}

function showFailure(error: unknown): void {
  console.error(error);
  document.body.replaceChildren(h("main", {}, h("h1", {}, "This report cannot be shown"),
    h("p", { id: "failure" }, printable(error instanceof Error ? error.message : String(error))),
    h("p", {}, "The browser must be of 2023 or newer; if it is, make the page again with millrace report --html.")));
}

startTheme();
loadData().then(build).then(() => {
  document.documentElement.dataset["ready"] = String(Math.round(performance.now()));
}).catch(showFailure);
