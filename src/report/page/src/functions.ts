// Functions: the layers, a table of functions, and the sizes and latencies of the selected one.
import { register } from "./anchors";
import type { Distribution, FunctionStats, LayerStats, Profile } from "./data";
import { type Child, empty, figure, foreign, h, section } from "./dom";
import * as format from "./format";
import { histogram } from "./histogram";
import { type Column, DataTable } from "./tables";

export function makeFunctions(profile: Profile): HTMLElement {
  const element = section("functions", "Functions and layers", null);
  if (profile.layers.length) element.append(layerTable(profile.layers));
  if (profile.functions.length === 0) {
    element.append(empty("No function was called."));
    register("functions", element);
    return element;
  }
  const chosen = h("div", { class: "chosen", id: "chosen-function", "aria-live": "polite" });
  const table = functionTable(profile.functions, (row) => chosen.replaceChildren(...describe(row, `functions.${profile.functions.indexOf(row)}`)));
  element.append(h("h3", {}, "Functions"),
    h("p", { class: "lead" }, "Choose a row for its sizes and latencies."), table.element, chosen);
  table.choose(profile.functions.find(({ bytes }) => bytes > 0) ?? profile.functions[0]);
  // A region may have the name of a call ("read"); evidence refers to the call.
  register("functions", element, (key) => {
    const named = profile.functions.filter(({ name }) => name === key);
    const row = named.find(({ kind }) => kind !== "region") ?? named[0];
    return row ? table.showRow(row) : null;
  });
  return element;
}

const layerBadge = (layer: string): HTMLElement =>
  h("span", { class: `layer layer-${/^[a-z]+$/.test(layer) ? layer : "none"}` }, layer);

function functionTable(rows: FunctionStats[], select: (row: FunctionStats) => void): DataTable<FunctionStats> {
  const time = (title: string, key: string, value: (row: FunctionStats) => number): Column<FunctionStats> =>
    ({ key, title, width: 6.2, value, cell: (row) => format.duration(value(row)) });
  const size = (title: string, key: string, value: (row: FunctionStats) => number): Column<FunctionStats> =>
    ({ key, title, width: 6.2, value, cell: (row) => (row.size_bytes.count ? format.bytes(value(row)) : "") });
  return new DataTable<FunctionStats>({
    label: "Functions", rows, select, sort: { key: "time_ns", descending: true },
    rowKey: ({ name }) => name,
    filter: { placeholder: "filter by function, layer, kind", text: ({ name, layer, kind, role }) => `${name} ${layer} ${kind} ${role}` },
    columns: [
      { key: "name", title: "Function", value: ({ name }) => name, cell: ({ name }) => foreign(name, { class: "code" }) },
      { key: "layer", title: "Layer", width: 8.5, value: ({ layer }) => layer, cell: ({ layer }) => layerBadge(layer) },
      { key: "kind", title: "Kind", width: 6.5, value: kindOf },
      { key: "count", title: "Calls", width: 7, value: ({ count }) => count, cell: ({ count }) => format.exact(count) },
      { key: "errors", title: "Errors", width: 5, optional: true, value: ({ errors }) => errors, cell: ({ errors }) => errors ? h("span", { class: "bad" }, format.exact(errors)) : "" },
      time("Time", "time_ns", ({ time_ns }) => time_ns),
      { key: "bytes", title: "Bytes", width: 6.2, value: ({ bytes }) => bytes, cell: ({ bytes }) => (bytes ? format.bytes(bytes) : "") },
      { key: "bandwidth", title: "Bandwidth", width: 6.5, value: speedOf, cell: (row) => (row.bytes ? format.bandwidth(speedOf(row)) : ""), help: "bytes over the time in the calls" },
      size("Size p50", "size_median", (row) => row.size_bytes.median),
      time("p50", "latency_median", (row) => row.latency_ns.median),
      time("p99", "latency_p99", (row) => row.latency_ns.p99),
      time("Max", "latency_max", (row) => row.latency_ns.max),
    ],
  });
}

const kindOf = ({ kind, role }: FunctionStats): string => (kind === "region" && role !== "none" ? role : kind);
const speedOf = ({ bytes, time_ns }: FunctionStats): number => format.share(bytes, time_ns / 1e9);

function describe(row: FunctionStats, path: string): Node[] {
  const title = h("h3", {}, foreign(row.name, { class: "code" }), " ", layerBadge(row.layer));
  const figures = h("p", {}, figure(`${path}.count`, row.count, format.exact(row.count)), " calls, ",
    figure(`${path}.time_ns`, row.time_ns, format.duration(row.time_ns)), ", ",
    `${format.count(format.share(row.count, row.time_ns / 1e9))} calls a second of calling`,
    row.errors ? `, ${format.exact(row.errors)} failed` : "");
  const parts: Node[] = [title, figures,
    h("div", { class: "histograms" },
      histogram({ label: "Latency", bins: row.latency_bins, value: format.duration, className: "fill-latency" }),
      row.size_bytes.count > 0 && histogram({ label: "Bytes moved by a call", bins: row.size_bins, value: format.bytes, className: "fill-size" }) || "")];
  parts.push(quantiles(row));
  return parts;
}

const QUANTILES: [keyof Distribution, string][] = [["min", "min"], ["p25", "25 %"], ["median", "median"],
  ["mean", "mean"], ["p75", "75 %"], ["p95", "95 %"], ["p99", "99 %"], ["max", "max"]];

function quantiles(row: FunctionStats): HTMLElement {
  return quantileTable([["Latency", row.latency_ns, format.duration],
    ...(row.size_bytes.count ? [["Size", row.size_bytes, format.bytes] as QuantileRow] : [])]);
}

export type QuantileRow = [string, Distribution, (value: number) => string];

export function quantileTable(rows: QuantileRow[]): HTMLElement {
  return h("div", { class: "wide" }, h("table", { class: "plain" },
    h("thead", {}, h("tr", {}, h("th", {}, ""), ...QUANTILES.map(([, title]) => h("th", { scope: "col", class: "number" }, title)))),
    h("tbody", {}, ...rows.map(([title, distribution, write]) => h("tr", {}, h("th", { scope: "row" }, title),
      ...QUANTILES.map(([key]) => h("td", { class: "number" }, write(distribution[key]))))))));
}

function layerTable(layers: LayerStats[]): HTMLElement {
  const cell = (text: Child): HTMLElement => h("td", { class: "number" }, text);
  const titles = ["Calls", "Time", "Overlapped", "Read", "Written", "Metadata calls", "Metadata time"];
  const table = h("div", { class: "wide" }, h("table", { class: "plain", "aria-label": "Layers" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Layer"), ...titles.map((title) => h("th", { scope: "col", class: "number" }, title)))),
    h("tbody", {}, ...layers.map((row) => h("tr", {}, h("th", { scope: "row" }, layerBadge(row.layer)),
      cell(figure(`layers.${layers.indexOf(row)}.count`, row.count, format.exact(row.count))),
      cell(figure(`layers.${layers.indexOf(row)}.busy_ns`, row.busy_ns, format.duration(row.busy_ns))), cell(format.percent(format.share(row.overlapped_ns, row.busy_ns))),
      cell(format.bytes(row.bytes_read)), cell(format.bytes(row.bytes_written)),
      cell(format.exact(row.metadata_count)), cell(format.duration(row.metadata_ns)))))));
  register("layers", table);
  return table;
}
