// Keys that work everywhere on the page, and the help that lists all keys.
import { h } from "./dom";
import type { TimeRange } from "./range";
import { toggleTheme } from "./theme";
import { zoomByKey } from "./view";

const KEYS: [string, string][] = [
  ["+  -", "zoom the views over time in and out"],
  ["← →", "move them; with shift by a whole screen"],
  ["0", "show the whole job"],
  ["Home End", "go to the begin, to the end"],
  ["↑ ↓", "in the events: scroll the threads, or choose the event below; in a table: choose a row"],
  ["n p", "in the events: the next event, the one before"],
  ["Enter", "in the events: zoom to the chosen one; in the call tree: zoom into the call; in a table of epochs, steps or checkpoints: show it over time"],
  ["Escape", "in the events: choose none; in the call tree: zoom out"],
  ["/", "filter the files"],
  ["d", "light or dark"],
  ["?", "this help"],
];

export function startKeys(range: TimeRange): HTMLDialogElement {
  const help = makeHelp();
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || help.open) return;
    const target = event.target as HTMLElement;
    if (/^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName)) return;
    if (event.key === "?") help.showModal();
    else if (event.key === "d") toggleTheme();
    else if (event.key === "/") document.querySelector<HTMLElement>("#files input")?.focus();
    else if (!["+", "=", "-", "0"].includes(event.key) && !isInViews(target)) return;
    else if (!zoomByKey(event, range)) return;
    event.preventDefault();
  });
  return help;
}

// Elsewhere the arrow keys scroll the page, as usual.
const isInViews = (target: HTMLElement): boolean => target.closest("#over-time") !== null && target.closest(".table, select") === null;

function makeHelp(): HTMLDialogElement {
  const dialog: HTMLDialogElement = h("dialog", { id: "help", "aria-labelledby": "help-title" },
    h("h2", { id: "help-title" }, "Keys"),
    h("dl", { class: "keys" }, ...KEYS.flatMap(([key, does]) => [h("dt", {}, ...key.split(" ").filter(Boolean).map((one) => h("kbd", {}, one))), h("dd", {}, does)])),
    h("button", { type: "button", autofocus: true, click: () => dialog.close() }, "close"));
  return dialog;
}
