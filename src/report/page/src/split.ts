// Split of time: what the job, its hosts and its ranks did, as bars whose parts do not overlap.
import { register } from "./anchors";
import type { Profile, TimeSplit } from "./data";
import { type Child, empty, figure, foreign, h, section } from "./dom";
import * as format from "./format";
import { type Column, DataTable } from "./tables";

interface Part { key: string; title: string; of: (split: TimeSplit) => number }

// Together they add up to the wall time.
const PARTS: Part[] = [
  { key: "compute", title: "computing, no I/O", of: (split) => split.compute_exposed_ns },
  { key: "overlapped", title: "computing, with overlapped I/O", of: (split) => split.io_overlapped_ns },
  { key: "io", title: "I/O that does not overlap with computing", of: (split) => split.io_exposed_ns },
  { key: "other", title: "other marked work (decode, exchange, ...)", of: otherOf },
  { key: "idle", title: "none of these", of: (split) => split.idle_ns },
];

function otherOf(split: TimeSplit): number {
  return Math.max(0, split.wall_ns - split.compute_exposed_ns - split.io_overlapped_ns - split.io_exposed_ns - split.idle_ns);
}

export function makeSplit({ time }: Profile): HTMLElement {
  const basis = time.basis === "regions" ? "Waiting is measured from regions of the program."
    : time.basis === "io time" ? "The program marks no regions: the time that the main process spends in I/O calls counts as waiting."
      : "The trace does not show when training computes or waits.";
  if (time.job.wall_ns === 0) {
    const nothing = section("time", "Split of time", null, empty("The trace covers no time."));
    register("time", nothing);
    return nothing;
  }
  const waits = (split: TimeSplit): string => (time.basis === "none" ? "" : `waits ${format.percent(split.wait_share)} of training`);
  const rows = time.ranks.length > 1
    ? [row(time.job, "time.job", "Job", waits), row(time.mean, "time.mean", "Mean of the ranks", waits)]
    : [row(time.mean, "time.mean", "Job", waits)];
  const element = section("time", "Split of time", `Every part is the length of a union of intervals: two threads that read at the same time count once. ${basis}`,
    legend(), h("div", { class: "split-rows" }, ...rows),
    figures(time));
  if (time.hosts.length > 1) element.append(h("h3", {}, "Hosts"), group(time.hosts, "time.hosts", "hosts"));
  if (time.ranks.length > 1) element.append(h("h3", {}, "Ranks"), group(time.ranks, "time.ranks", "ranks"));
  register("time", element);
  return element;
}

function legend(): HTMLElement {
  return h("ul", { class: "legend" }, ...PARTS.map(({ key, title }) =>
    h("li", {}, h("span", { class: `swatch fill-${key}` }), title)));
}

export function bar(split: TimeSplit): HTMLElement {
  const wall = Math.max(1, split.wall_ns);
  const text = PARTS.map(({ title, of }) => `${title} ${format.percent(of(split) / wall)}`).join(", ");
  return h("div", { class: "bar", role: "img", "aria-label": text, title: text.replaceAll(", ", "\n") },
    ...PARTS.map(({ key, of }) => h("span", { class: `fill-${key}`, style: `width:${(100 * of(split)) / wall}%` })));
}

function row(split: TimeSplit, path: string, title: string, waits: (split: TimeSplit) => string): HTMLElement {
  const element = h("div", { class: "split-row", id: path.replace(".", "-") },
    h("span", { class: "split-name" }, title), bar(split),
    h("span", { class: "split-wait" }, waits(split)));
  register(path, element);
  return element;
}

const FIGURES: [keyof TimeSplit, string][] = [
  ["startup_ns", "Start-up"], ["training_ns", "Training"],
  ["compute_ns", "Computing"], ["io_ns", "I/O"], ["io_exposed_ns", "I/O not overlapped"],
  ["compute_exposed_ns", "Computing without I/O"], ["fetch_ns", "Fetching"], ["decode_ns", "Decoding"], ["transform_ns", "Transforms"],
  ["fetch_exposed_ns", "Fetching not overlapped"], ["communicate_ns", "Exchanging gradients"],
  ["checkpoint_ns", "Checkpoints"], ["wait_ns", "Waiting for data"], ["idle_ns", "Idle"],
];

// Only of a job whose GPU was traced, or that copied to it.
const GPU_FIGURES: [keyof TimeSplit, string][] = [
  ["launch_ns", "The host launches work"], ["copy_ns", "Copies to the GPU"],
  ["wait_overlapped_ns", "Waiting while the GPU computes"],
];

function figures({ mean, compute_basis }: Profile["time"]): Child {
  const ofGpu = GPU_FIGURES.filter(([key]) => (mean[key] as number) > 0);
  const named = (key: keyof TimeSplit, title: string): string =>
    key === "compute_ns" && compute_basis && compute_basis !== "regions" ? "Computing, the GPU's own time" : title;
  return h("dl", { class: "tiles tiles-small", "aria-label": "mean over the ranks" }, ...[...FIGURES, ...ofGpu].map(([key, title]) =>
    h("div", { class: "tile" }, h("dt", {}, named(key, title)),
      h("dd", {}, figure(`time.mean.${key}`, mean[key], format.duration(mean[key] as number))),
      h("dd", { class: "detail" }, key === "wait_ns" ? `${format.percent(mean.wait_share)} of training`
        : format.percent(format.share(mean[key] as number, mean.wall_ns))))));
}

function group(splits: TimeSplit[], path: string, label: string): HTMLElement {
  const time = (key: keyof TimeSplit, title: string): Column<TimeSplit> => ({
    key, title, width: 7.5, value: (split) => split[key], cell: (split) => format.duration(split[key] as number),
  });
  const table = new DataTable<TimeSplit>({
    label: `Split of time by ${label}`, rows: splits, rowKey: ({ name }) => name,
    ...(splits.length > 20 ? { filter: { placeholder: `filter ${label}`, text: ({ name }: TimeSplit) => name } } : {}),
    columns: [
      { key: "name", title: label === "ranks" ? "Rank" : "Host", width: 9, value: ({ name }) => name, cell: ({ name }) => foreign(name) },
      { key: "bar", title: "Split", value: (split) => format.share(split.io_exposed_ns, split.wall_ns), cell: bar, left: true, help: "sorts by the share of I/O that is not overlapped" },
      time("wall_ns", "Wall"), time("compute_ns", "Compute"), time("io_ns", "I/O"),
      time("io_exposed_ns", "I/O not overlapped"),
      { key: "wait_share", title: "Waits", width: 6, value: (split) => split.wait_share, cell: (split) => format.percent(split.wait_share) },
    ],
  });
  register(path, table.element, (key) => table.show(key));
  return table.element;
}
