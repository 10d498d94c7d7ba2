// The data of the page: the profile (src/analyze/profile.h, the same names and nesting), the findings
// (src/advise/advise.h) and single events (docs/formats/page-data.md), unpacked from the page itself.

export const LAYERS = ["application", "loader", "format", "mpiio", "stdio", "posix"] as const;

export interface Distribution {
  count: number; sum: number; min: number; p25: number; mean: number; median: number;
  p75: number; p95: number; p99: number; max: number;
}

export interface Job {
  traces: string[]; command: string; framework: string; hosts: string[]; ranks: number; processes: number;
  threads: number; compute_threads: number; io_threads: number; begin_wall_ns: number; begin_ns: number;
  wall_ns: number; events: number; lost_events: number; files: number; dataset_files: number;
  dataset_bytes: number; dataset_bytes_read: number; dataset_unique_bytes: number; bytes_read: number;
  bytes_written: number; amplification: number; epochs: number; steps: number; direct_io: boolean;
  mapped_io: boolean; uring_io: boolean;
}

export interface TimeSplit {
  name: string; wall_ns: number; compute_ns: number; io_ns: number; fetch_ns: number; decode_ns: number;
  checkpoint_ns: number; communicate_ns: number; wait_ns: number; io_hidden_ns: number; io_unhidden_ns: number;
  fetch_unhidden_ns: number; compute_unhidden_ns: number; idle_ns: number; step_ns: number; wait_share: number;
}

export interface SplitOfTime { basis: string; job: TimeSplit; mean: TimeSplit; nodes: TimeSplit[]; ranks: TimeSplit[] }

export interface FunctionStats {
  name: string; layer: string; kind: string; role: string; count: number; errors: number; time_ns: number;
  bytes: number; size_bytes: Distribution; latency_ns: Distribution; size_bins: number[]; latency_bins: number[];
}

export interface LayerStats {
  layer: string; count: number; time_ns: number; busy_ns: number; hidden_ns: number; bytes_read: number;
  bytes_written: number; metadata_count: number; metadata_ns: number;
}

export interface IoTotals {
  opens: number; reads: number; writes: number; seeks: number; syncs: number; metadata: number; maps: number;
  errors: number; bytes_read: number; bytes_written: number; read_ns: number; write_ns: number;
  metadata_ns: number; first_ns: number; last_ns: number;
}

export interface AccessCounts {
  count: number; transitions: number; consecutive: number; sequential: number; unaligned_offset: number;
  unaligned_size: number; small: number; at_end: number; lines: number;
}

export interface FileStats {
  path: string; kind: string; io: IoTotals; read: AccessCounts; write: AccessCounts; size_bytes: number;
  size_known: boolean; unique_bytes_read: number; shared_bytes_read: number; ranks: number; readers: number;
  epochs: number; direct_opens: number; unaligned_direct: number;
}

export interface GroupStats { name: string; io: IoTotals; files: number; size_bytes: number }
export interface CommonValue { value: number; count: number }
export interface AccessPattern {
  counts: AccessCounts; sizes: number[]; common_sizes: CommonValue[]; common_strides: CommonValue[];
}

export interface DataUse {
  files_read: number; files_whole: number; files_opened_unread: number; files_small: number;
  files_one_rank: number; files_shared: number; files_every_epoch: number; files_once: number;
  shared_bytes: number; order: string; order_repeated: number; ascending: number; ascending_within: number;
}

export interface TimelineBins {
  bin_ns: number; bytes_read: number[]; bytes_written: number[]; operations: number[]; metadata: number[];
  busy_ns: number[];
}

export interface RankActivity { name: string; io: number[]; compute: number[]; wait: number[] }
export interface HeatMap { bin_ns: number; ranks: RankActivity[] }
export interface Stretch { role: string; name: string; epoch: number; rank: number; begin_ns: number; end_ns: number }
export interface EpochAction {
  name: string; role: string; count: number; mean_ns: number; min_ns: number; max_ns: number;
}
export interface EpochStats {
  epoch: number; begin_ns: number; end_ns: number; steps: number; time: TimeSplit; io: IoTotals; files: number;
  actions: EpochAction[];
}
export interface StepStats {
  epoch: number; step: number; rank: number; begin_ns: number; duration_ns: number; wait_ns: number;
}
export interface Steps { duration_ns: Distribution; wait_ns: Distribution; slowest: StepStats[]; all: StepStats[] }
export interface TreeNode {
  name: string; layer: string; parent: number; count: number; total_ns: number; self_ns: number; bytes: number;
}
export interface Checkpoint {
  epoch: number; begin_ns: number; end_ns: number; ranks_writing: number; bytes: number; writes: number;
  stalled_ns: number; file: string;
}
export interface RankLoad {
  name: string; host: string; io: IoTotals; data_files: number; data_bytes_read: number;
  threads_reading: number; reads_in_flight: number;
}

export interface Profile {
  job: Job; time: SplitOfTime; layers: LayerStats[]; functions: FunctionStats[]; reads: AccessPattern;
  writes: AccessPattern; data_reads: AccessPattern; data: DataUse; files: FileStats[]; directories: GroupStats[];
  extensions: GroupStats[]; kinds: GroupStats[]; hosts: GroupStats[]; ranks: RankLoad[]; timeline: TimelineBins;
  heat: HeatMap; stretches: Stretch[]; epochs: EpochStats[]; steps: Steps; tree: TreeNode[];
  checkpoints: Checkpoint[]; problems: string[];
}

export interface Finding {
  rule: string; severity: string; title: string; evidence: { text: string; where: string }[]; threshold: string;
  changes: { framework: string; text: string }[]; gain: { saved_ns: number; share: number; how: string };
}
// The answer is the first sentence in the terminal; without one, the page makes its own.
export interface Findings { findings: Finding[]; answer?: string }

export interface DetailThread { rank: string; process: number; tid: number; title: string }
export interface DetailWindow {
  begin_ns: number; end_ns: number; why: string;
  threads?: number[];  // the threads whose events are included; by default all
  thread: number[]; name: number[]; layer: number[]; begin: number[]; duration: number[]; file: number[];
  offset: number[]; size: number[]; result: number[]; error: number[];
}
export interface DetailLevel { bin_ns: number; rows: { thread: number; layer: number; busy: number[] }[] }
// The origin is the begin of the job, relative to the first event of the trace: above 0 if the page shows a part
// (--from).
export interface Detail { origin_ns: number; names: string[]; threads: DetailThread[]; windows: DetailWindow[]; levels: DetailLevel[] }

export interface PageData { profile: Profile; findings: Findings; detail: Detail }

export async function loadData(): Promise<PageData> {
  const [profile, findings, detail] = await Promise.all([unpack("profile"), unpack("findings"), unpack("detail")]);
  return {
    profile: profile as Profile,
    findings: { findings: [], ...(findings as object) },
    detail: { origin_ns: 0, names: [], threads: [], windows: [], levels: [], ...(detail as object) },
  };
}

// The page has <script id="data-profile" data-encoding="gzip"> with the JSON in base64, compressed or plain.
async function unpack(name: string): Promise<unknown> {
  const holder = document.getElementById(`data-${name}`);
  if (!holder) throw new Error(`the page has no data of the name '${name}'; make it again with millrace report --html`);
  const packed = fromBase64(holder.textContent.trim());
  holder.remove();  // frees megabytes that are not read again
  if (holder.dataset["encoding"] !== "gzip") return JSON.parse(new TextDecoder().decode(packed));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}

function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  const native = (Uint8Array as unknown as { fromBase64?: (text: string) => Uint8Array<ArrayBuffer> }).fromBase64;
  if (native) return native.call(Uint8Array, text);
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; ++i) bytes[i] = binary.charCodeAt(i);
  return bytes;
}
