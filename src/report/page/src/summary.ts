// Summary: the verdict and its first reason, then the figures of the job.
import type { Finding, Findings, FunctionStats, Profile, TimeSplit } from "./data";
import { type Child, empty, figure, foreign, h, printable, section } from "./dom";
import * as format from "./format";
import { register } from "./anchors";
import { saving, waysOf } from "./findings";

export function makeSummary(profile: Profile, findings: Findings, originNs: number): HTMLElement {
  const { sentence } = findings.verdict;
  const element = section("summary", "Summary", null,
    h("div", { class: `answer answer-${stateOf(findings)}`, id: "answer" },
      h("p", { class: "question" }, "Is data the bottleneck?"),
      h("p", { class: "answer-text" }, printable(sentence.charAt(0).toUpperCase() + sentence.slice(1))), ...reasons(profile, findings)),
    problems(profile),
    h("dl", { class: "tiles" }, ...tiles(profile)),
    jobLine(profile, originNs));
  register("job", element);
  return element;
}

// The colour of the verdict.
function stateOf({ findings, verdict }: Findings): "problem" | "warning" | "fine" | "unknown" {
  const has = (wanted: string): boolean => findings.some(({ severity }) => severity === wanted);
  if (has("problem")) return "problem";
  if (has("warning")) return "warning";
  return verdict.answer === "no" ? "fine" : "unknown";
}

function reasons(profile: Profile, findings: Findings): Child[] {
  const lines: Child[] = [];
  const first: Finding | undefined = findings.findings[0];
  if (first) {
    const { gain } = waysOf(first)[0]!;
    lines.push(h("p", {}, "First of all: ", h("a", { href: "#findings" }, printable(first.title)),
      gain.saved_ns > 0 ? ` (${saving(gain)})` : "", "."));
  }
  const top = topCall(profile);
  if (top) {
    const all = ioFunctions(profile).reduce((sum, { time_ns }) => sum + time_ns, 0);
    lines.push(h("p", {}, "Most time in I/O calls goes to ", foreign(top.name, { class: "code" }),
      ` (${top.layer}): ${format.duration(top.time_ns)} over all threads, ${format.percent(format.share(top.time_ns, all))} of all ${top.layer} calls, in ${format.exact(top.count)} calls.`));
  }
  return lines;
}

// The calls of the layer with the most time: layers overlap, so they must not be added.
function ioFunctions(profile: Profile): FunctionStats[] {
  const layers = profile.layers.filter(({ layer }) => layer !== "application" && layer !== "loader");
  const busiest = layers.sort((a, b) => b.busy_ns - a.busy_ns)[0];
  return busiest ? profile.functions.filter(({ layer }) => layer === busiest.layer) : [];
}

function topCall(profile: Profile): FunctionStats | undefined {
  return ioFunctions(profile).sort((a, b) => b.time_ns - a.time_ns)[0];
}

function problems({ problems: list, job }: Profile): Child {
  const lost = job.lost_events > 0 ? [`${format.exact(job.lost_events)} events were lost while recording: the figures are of the rest`] : [];
  const all = [...lost, ...list];
  if (all.length === 0) return null;
  const box = h("div", { class: "problems", role: "note", id: "problems" },
    h("h3", {}, all.length === 1 ? "One thing to know about this trace" : `${all.length} things to know about this trace`),
    h("ul", {}, ...all.map((text) => h("li", {}, foreign(text)))));
  register("problems", box);
  return box;
}

function tile(title: string, value: Child, detail: Child = null): HTMLElement {
  return h("div", { class: "tile" }, h("dt", {}, title), h("dd", {}, value),
    detail ? h("dd", { class: "detail" }, detail) : null);
}

const ofSteps = ({ step_ns, step_wait_share }: TimeSplit): string => (step_ns > 0 ? `, ${format.percent(step_wait_share)} of its steps` : "");

function tiles({ job, time }: Profile): Child[] {
  const speed = (bytes: number): string => format.bandwidth(format.share(bytes, job.wall_ns / 1e9));
  const many = (value: number, one: string): string => `${format.exact(value)} ${value === 1 ? one : `${one}s`}`;
  return [
    tile("Wall time", figure("job.wall_ns", job.wall_ns, format.duration(job.wall_ns)),
      job.begin_wall_ns > 0 ? `from ${format.date(job.begin_wall_ns)}` : null),
    tile("Waiting for data", figure("time.mean.wait_share", time.mean.wait_share,
      time.basis === "none" ? "unknown" : format.percent(time.mean.wait_share)),
      time.basis === "regions" ? `of training${ofSteps(time.mean)}` : time.basis === "io time" ? "by time in I/O calls" : "no regions are marked"),
    tile("Data read", figure("job.dataset_bytes_read", job.dataset_bytes_read, format.bytes(job.dataset_bytes_read)),
      job.bytes_read > job.dataset_bytes_read ? `${format.bytes(job.bytes_read)} with all other files` : speed(job.dataset_bytes_read)),
    tile("Written", figure("job.bytes_written", job.bytes_written, format.bytes(job.bytes_written)), speed(job.bytes_written)),
    tile("Dataset", figure("job.dataset_bytes", job.dataset_bytes, format.bytes(job.dataset_bytes)),
      many(job.dataset_files, "file")),
    tile("Read amplification", figure("job.amplification", job.amplification,
      job.amplification > 0 ? `${job.amplification.toFixed(2)} x` : "unknown"), "bytes read in an epoch over the dataset's"),
    tile("Ranks", figure("job.ranks", job.ranks, format.exact(job.ranks)),
      `on ${many(job.hosts.length, "host")}, ${many(job.processes, "process").replace("processs", "processes")}`),
    tile("Threads", figure("job.threads", job.threads, format.exact(job.threads)),
      `${format.exact(job.io_threads)} did I/O, ${format.exact(job.compute_threads)} computed`),
    tile("Events", figure("job.events", job.events, format.exact(job.events)), `of ${many(job.files, "file")}`),
    tile("Epochs", figure("job.epochs", job.epochs, job.epochs ? format.exact(job.epochs) : "not marked"),
      job.steps ? many(job.steps, "step") : null),
  ];
}

function jobLine({ job }: Profile, originNs: number): Child {
  const kinds = [job.direct_io && "O_DIRECT", job.mapped_io && "mapped files, whose reads are not itemised", job.uring_io && "io_uring"].filter(Boolean);
  const rows: [string, Child][] = [];
  if (job.command) rows.push(["Command", foreign(job.command, { class: "code" })]);
  if (job.framework) rows.push(["Framework", printable(job.framework)]);
  if (job.traces.length) rows.push([job.traces.length === 1 ? "Trace" : "Traces", foreign(job.traces.join(", "), { class: "code" })]);
  if (originNs > 0) rows.push(["Part", `of the trace, from ${format.seconds(originNs)} on; times here count from there`]);
  if (job.hosts.length) rows.push([job.hosts.length === 1 ? "Host" : "Hosts", foreign(shortList(job.hosts))]);
  if (kinds.length) rows.push(["Also used", kinds.join("; ")]);
  if (rows.length === 0) return empty("The trace names no command, host or framework.");
  return h("dl", { class: "facts" }, ...rows.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}

function shortList(names: string[]): string {
  return names.length <= 12 ? names.join(", ") : `${names.slice(0, 12).join(", ")} and ${names.length - 12} more`;
}
