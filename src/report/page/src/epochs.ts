// Epochs, steps and checkpoints as tables. A click on a row shows its time range.
import { register } from "./anchors";
import type { Checkpoint, EpochStats, Profile, StepStats } from "./data";
import { empty, foreign, h, pathOf, section } from "./dom";
import * as format from "./format";
import { quantileTable } from "./functions";
import type { TimeRange } from "./range";
import { bar } from "./split";
import { type Column, DataTable } from "./tables";

// Zooms the views over time to an interval, with some room around it.
function goTo(range: TimeRange, begin: number, end: number): void {
  const room = Math.max(1, (end - begin) * 0.05);
  range.set(begin - room, end + room);
  document.getElementById("over-time")?.scrollIntoView({ block: "start" });
}

export function makeEpochs(profile: Profile, range: TimeRange): HTMLElement {
  const element = section("epochs", "Epochs", null);
  if (profile.epochs.length === 0) element.append(empty("The program marks no epochs. Where it does (regions from Python or C), they are shown here, action by action."));
  else {
    const table = epochTable(profile.epochs, range);
    element.append(h("p", { class: "lead" }, "Times of an action are the mean over the ranks. A chosen row is shown over time."), table.element);
    register("epochs", element, (key) => table.show(key));
  }
  const steps = makeSteps(profile, range);
  if (steps) element.append(steps);
  const checkpoints = makeCheckpoints(profile, range);
  if (checkpoints) element.append(checkpoints);
  return element;
}

// All actions of all epochs, sorted by time, longest first.
function actionNames(epochs: EpochStats[]): string[] {
  const totals = new Map<string, number>();
  for (const { actions } of epochs) for (const { name, mean_ns } of actions) totals.set(name, (totals.get(name) ?? 0) + mean_ns);
  return [...totals].sort((a, b) => b[1] - a[1]).map(([name]) => name);
}

function epochTable(epochs: EpochStats[], range: TimeRange): DataTable<EpochStats> {
  const names = actionNames(epochs);
  return new DataTable<EpochStats>({
    label: "Epochs", rows: epochs, rowKey: ({ epoch }) => String(epoch),
    visit: ({ begin_ns, end_ns }) => goTo(range, begin_ns, end_ns),
    columns: [
      { key: "epoch", title: "Epoch", width: 5, value: ({ epoch }) => epoch },
      { key: "duration", title: "Time", width: 6.5, value: (row) => row.end_ns - row.begin_ns, cell: (row) => format.duration(row.end_ns - row.begin_ns) },
      { key: "split", title: "Split", value: ({ time }) => format.share(time.io_exposed_ns, time.wall_ns), cell: ({ time }) => bar(time), left: true, help: "colours as in the split of time" },
      { key: "wait_share", title: "Waits", width: 5.5, value: ({ time }) => time.wait_share, cell: ({ time }) => format.percent(time.wait_share) },
      { key: "steps", title: "Steps", width: 5.5, value: ({ steps }) => steps, cell: ({ steps }) => format.exact(steps) },
      { key: "files", title: "Files", width: 6, value: ({ files }) => files, cell: ({ files }) => format.exact(files) },
      { key: "bytes_read", title: "Read", width: 6, value: ({ io }) => io.bytes_read, cell: ({ io }) => format.bytes(io.bytes_read) },
      { key: "bandwidth", title: "Bandwidth", width: 6.5, value: speedOf, cell: (row) => format.bandwidth(speedOf(row)) },
      ...names.map(actionColumn),
    ],
  });
}

const speedOf = ({ io, begin_ns, end_ns }: EpochStats): number => format.share(io.bytes_read, (end_ns - begin_ns) / 1e9);

function actionColumn(name: string): Column<EpochStats> {
  const find = ({ actions }: EpochStats) => actions.find((action) => action.name === name);
  return {
    key: `action ${name}`, title: name, width: 8, value: (row) => find(row)?.mean_ns ?? 0,
    cell: (row) => {
      const action = find(row);
      if (!action) return "";
      return h("span", { title: `${format.exact(action.count)} times; ${format.duration(action.min_ns)} to ${format.duration(action.max_ns)} by rank` }, format.duration(action.mean_ns));
    },
  };
}

function makeSteps({ steps, time }: Profile, range: TimeRange): HTMLElement | null {
  if (steps.duration_ns.count === 0) return null;
  const rows = steps.all.length ? steps.all : steps.slowest;
  const table = new DataTable<StepStats>({
    label: "Steps", rows, rowKey: ({ step }) => String(step),
    sort: { key: "duration_ns", descending: true },
    visit: ({ begin_ns, duration_ns }) => goTo(range, begin_ns, begin_ns + duration_ns),
    ...(steps.all.length ? {} : { note: `the slowest of ${format.exact(steps.duration_ns.count)} steps` }),
    columns: [
      { key: "epoch", width: 8, title: "Epoch", value: ({ epoch }) => epoch, cell: ({ epoch }) => (epoch < 0 ? "" : epoch) },
      { key: "step", width: 8, title: "Step", value: ({ step }) => step, cell: ({ step }) => (step < 0 ? "" : step) },
      { key: "rank", title: "Rank", left: true, value: ({ rank }) => rank, cell: ({ rank }) => foreign(time.ranks[rank]?.name ?? `rank ${rank}`) },
      { key: "begin_ns", width: 8, title: "Begin", value: ({ begin_ns }) => begin_ns, cell: ({ begin_ns }) => format.moment(begin_ns, 1e6) },
      { key: "duration_ns", width: 8, title: "Time", value: ({ duration_ns }) => duration_ns, cell: ({ duration_ns }) => format.duration(duration_ns) },
      { key: "wait_ns", width: 8, title: "Waited", value: ({ wait_ns }) => wait_ns, cell: ({ wait_ns }) => format.duration(wait_ns) },
      { key: "wait_share", width: 8, title: "Waits", value: (row) => format.share(row.wait_ns, row.duration_ns), cell: (row) => format.percent(format.share(row.wait_ns, row.duration_ns)) },
    ],
  });
  const element = h("div", { id: "steps" }, h("h3", {}, "Steps"),
    quantileTable([["Time of a step", steps.duration_ns, format.duration], ["Waiting in it", steps.wait_ns, format.duration]]), table.element);
  register("steps", element, (key) => table.show(key));
  return element;
}

function makeCheckpoints({ checkpoints, job }: Profile, range: TimeRange): HTMLElement | null {
  if (checkpoints.length === 0) return null;
  const table = new DataTable<Checkpoint>({
    label: "Checkpoints", rows: checkpoints, rowKey: ({ file }) => file,
    visit: ({ begin_ns, end_ns }) => goTo(range, begin_ns, end_ns),
    columns: [
      { key: "begin_ns", title: "Begin", width: 7, value: ({ begin_ns }) => begin_ns, cell: ({ begin_ns }) => format.moment(begin_ns, job.wall_ns / 1000) },
      { key: "epoch", title: "Epoch", width: 5, value: ({ epoch }) => epoch, cell: ({ epoch }) => (epoch < 0 ? "" : epoch) },
      { key: "duration", title: "Time", width: 6, value: (row) => row.end_ns - row.begin_ns, cell: (row) => format.duration(row.end_ns - row.begin_ns) },
      { key: "stalled_ns", title: "No rank computed", width: 9, value: ({ stalled_ns }) => stalled_ns, cell: ({ stalled_ns }) => format.duration(stalled_ns) },
      { key: "ranks_writing", title: "Ranks writing", width: 8, value: ({ ranks_writing }) => ranks_writing },
      { key: "writes", title: "Writes", width: 6, value: ({ writes }) => writes, cell: ({ writes }) => format.exact(writes) },
      { key: "bytes", title: "Written", width: 6, value: ({ bytes }) => bytes, cell: ({ bytes }) => format.bytes(bytes) },
      { key: "file", title: "File", value: ({ file }) => file, cell: ({ file }) => pathOf(file) },
    ],
  });
  const element = h("div", { id: "checkpoints" }, h("h3", {}, "Checkpoints"), table.element);
  register("checkpoints", element, (key) => table.show(key));
  return element;
}
