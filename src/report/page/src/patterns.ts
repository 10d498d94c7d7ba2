// Access patterns: how bytes were read and written, and how the data files were used.
import { register } from "./anchors";
import type { AccessPattern, CommonValue, DataUse, Profile } from "./data";
import { type Child, empty, figure, h, section } from "./dom";
import * as format from "./format";
import { histogram } from "./histogram";

export function makePatterns(profile: Profile): HTMLElement {
  const patterns: [string, string, AccessPattern][] = [["data_reads", "Reads of data files", profile.data_reads],
    ["reads", "All reads", profile.reads], ["writes", "All writes", profile.writes]];
  const used = patterns.filter(([, , pattern]) => pattern.counts.count > 0);
  const element = section("access", "Access patterns", null);
  if (used.length === 0) element.append(empty("Nothing was read or written."));
  else element.append(countsTable(used), h("div", { class: "histograms" }, ...used.map(([path, title, pattern]) => sizes(path, title, pattern))));
  if (profile.data.files_read > 0 || profile.data.files_opened_unread > 0) element.append(h("h3", {}, "How the data files were used"), dataUse(profile.data));
  for (const path of ["reads", "writes", "data_reads", "data"]) register(path, element);
  for (const part of element.querySelectorAll<HTMLElement>("[data-anchor]")) register(part.dataset["anchor"]!, part);
  return element;
}

function countsTable(used: [string, string, AccessPattern][]): HTMLElement {
  const titles = ["Calls", "Sequential", "Consecutive", "Under 64 KiB", "Offset unaligned", "Size unaligned", "At the end", "By line"];
  const cell = (text: Child): HTMLElement => h("td", { class: "number" }, text);
  return h("div", { class: "wide" }, h("table", { class: "plain", "aria-label": "Access patterns" },
    h("thead", {}, h("tr", {}, h("th", {}, ""), ...titles.map((title) => h("th", { scope: "col", class: "number" }, title)))),
    h("tbody", {}, ...used.map(([path, title, { counts }]) => {
      const of = (part: number, whole = counts.count): HTMLElement => cell(whole ? format.percent(format.share(part, whole)) : "");
      return h("tr", { "data-anchor": `${path}.counts` }, h("th", { scope: "row" }, title),
        cell(figure(`${path}.counts.count`, counts.count, format.exact(counts.count))),
        of(counts.sequential, counts.transitions), of(counts.consecutive, counts.transitions), of(counts.small),
        of(counts.unaligned_offset), of(counts.unaligned_size), of(counts.at_end), of(counts.lines));
    }))));
}

function sizes(path: string, title: string, pattern: AccessPattern): HTMLElement {
  return h("div", { class: "pattern", "data-anchor": path },
    histogram({ label: `${title}: bytes a call`, bins: pattern.sizes, value: format.bytes, className: "fill-size" }),
    common("Common sizes", pattern.common_sizes), common("Common strides", pattern.common_strides));
}

function common(title: string, values: CommonValue[]): Child {
  if (values.length === 0) return null;
  return h("p", { class: "common" }, `${title}: `, values.map(({ value, count }) => `${format.bytes(value)} (${format.exact(count)} times)`).join(", "));
}

const ORDERS: Record<string, string> = {
  "unknown": "unknown: too little was read to say",
  "sequential": "by name and offset in every epoch: not shuffled",
  "fixed": "not by name, but the same in every epoch",
  "files shuffled": "files in a new order each epoch, their samples in the old one",
  "shuffled": "a new order every epoch",
};

function dataUse(data: DataUse): HTMLElement {
  const of = (value: number): string => `${format.exact(value)} (${format.percent(format.share(value, data.files_read))})`;
  const rows: [string, string][] = [
    ["Order", ORDERS[data.order] ?? data.order],
    ["Files read", format.exact(data.files_read)],
    ["Read as a whole", of(data.files_whole)],
    ["Under 1 MiB", of(data.files_small)],
    ["Read by one rank", of(data.files_one_rank)],
    ["Read by several ranks", of(data.files_shared)],
    ["Different bytes that several ranks read", format.bytes(data.shared_bytes)],
    ["Read in every epoch", of(data.files_every_epoch)],
    ["Opened once", of(data.files_once)],
    ["Opened and not read", format.exact(data.files_opened_unread)],
  ];
  return h("dl", { class: "facts", "data-anchor": "data" }, ...rows.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}
