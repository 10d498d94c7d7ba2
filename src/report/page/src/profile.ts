// The types of a profile. Written by tools/profile_schema.py from src/analyze/profile/profile.schema: change that.

// The rank of a quantile is within 1 % of the exact one; everything else is exact.
export interface Distribution {
  count: number;  // number of values
  sum: number;  // sum of the values
  min: number;  // smallest value
  p25: number;  // quantile: 25 % of the values are below
  mean: number;  // arithmetic mean
  median: number;  // quantile: half of the values are below
  p75: number;  // quantile
  p95: number;  // quantile
  p99: number;  // quantile
  max: number;  // largest value
}

// The job as a whole.
export interface Job {
  traces: string[];  // as the user gave them
  command: string;  // command of the main process of the first rank
  framework: string;  // "pytorch", "tensorflow", "jax"; empty: none was found
  hosts: string[];  // names of the hosts
  cores: number;  // CPUs that a process of the job may use, least over the hosts; 0: unknown
  ranks: number;  // groups of processes that train as one rank; at least 1
  failed_ranks: number;  // ranks whose main process exited with a code other than 0
  exit_code: number;  // exit code of the first failed rank
  processes: number;  // processes of all ranks
  threads: number;  // threads of all processes
  compute_threads: number;  // threads with compute regions
  io_threads: number;  // threads that read or wrote bytes
  begin_wall_ns: number;  // begin of the first event, since 1970-01-01 UTC
  begin_ns: number;  // the same on the clock of the trace; other times are relative to it
  wall_ns: number;  // from the begin of the first event to the end of the last
  events: number;  // events in the trace
  lost_events: number;  // events that could not be recorded
  files: number;  // all files used, of any kind
  dataset_files: number;  // data files
  dataset_bytes: number;  // total size of the data files, as far as the trace shows
  dataset_bytes_read: number;  // bytes read from data files
  dataset_unique_bytes: number;  // the same without repeated reads of the same bytes
  bytes_read: number;  // by system calls and stdio, from all kinds of files
  bytes_written: number;  // by system calls and stdio, to all kinds of files
  amplification: number;  // dataset bytes read per epoch, divided by dataset_bytes; 0: unknown
  epochs: number;  // epochs that regions mark; 0: none
  steps: number;  // steps that regions mark, of the rank with the most; 0: none
  direct_io: boolean;  // a file was opened with O_DIRECT
  mapped_io: boolean;  // files were mapped: their reads are not recorded one by one
  uring_io: boolean;  // io_uring was used
}

// How the time of one rank, one host or the job was spent. Every time is the length of a union of intervals: two threads that read at the same time count once.
export interface TimeSplit {
  name: string;  // "job", "mean", "node7", "rank 3"
  wall_ns: number;  // whole time
  startup_ns: number;  // part of wall_ns before training; 0: it is not known when training begins
  training_ns: number;  // part of wall_ns in training: from the first request for a batch to the end of the last step; without steps, from the first region of waiting, fetching or compute to the last; all of wall_ns if there is no compute either
  compute_ns: number;  // computing: the accelerator's own time if it is known, otherwise compute regions of the host
  io_ns: number;  // in I/O calls of any library or the system
  fetch_ns: number;  // in regions that fetch or read
  decode_ns: number;  // in regions that decode, decompress or parse
  transform_ns: number;  // in regions that transform or collate
  checkpoint_ns: number;  // in checkpoints and restores
  communicate_ns: number;  // in regions that communicate
  wait_ns: number;  // training waited for data; measured according to the basis. If the accelerator's time is known, only while it did not compute
  wait_overlapped_ns: number;  // the host waited for data while the accelerator still computed; not in wait_ns
  launch_ns: number;  // the host was in compute regions while compute is measured on the accelerator: it launches kernels, or waits for them
  copy_ns: number;  // copying to or from the accelerator: its own time, or regions of the host
  io_overlapped_ns: number;  // I/O that overlaps with compute
  io_exposed_ns: number;  // I/O that does not overlap with compute
  fetch_exposed_ns: number;  // fetching, decoding or transforming that does not overlap with compute
  compute_exposed_ns: number;  // compute that does not overlap with I/O
  idle_ns: number;  // none of the above
  step_ns: number;  // in steps: from waiting for a batch to the end of its compute
  wait_share: number;  // waiting in training over training_ns: the share that the verdict names
  step_wait_share: number;  // waiting in steps over step_ns; 0: no steps are known
}

// How the time was spent.
export interface SplitOfTime {
  compute_basis: string;  // how compute was measured: "regions" of the host, "device" (the accelerator's own clock), "both" (device for some ranks only)
  basis: string;  // how waiting was measured: "regions", "io time" (no regions: the time of the main process in I/O calls), "none"
  job: TimeSplit;  // all ranks together
  mean: TimeSplit;  // mean over the ranks: what one rank experiences
  hosts: TimeSplit[];  // by host
  ranks: TimeSplit[];  // by rank
}

// All calls of one function, or all regions with one name.
export interface FunctionStats {
  name: string;  // name of the call or region
  layer: string;  // where in the stack the call was made
  kind: string;  // what the call does
  role: string;  // role of a region
  count: number;  // calls
  errors: number;  // calls that failed
  time_ns: number;  // sum of durations
  bytes: number;  // bytes moved
  size_bytes: Distribution;  // bytes moved per call, for calls that move bytes
  latency_ns: Distribution;  // durations
  size_bins: number[];  // calls by bytes moved
  latency_bins: number[];  // calls by duration in ns
}

// All calls or regions of one layer.
export interface LayerStats {
  layer: string;  // the layer
  count: number;  // calls or regions
  time_ns: number;  // sum of durations
  busy_ns: number;  // union of the durations per rank, summed over the ranks
  overlapped_ns: number;  // part of busy_ns in which the same rank computed
  bytes_read: number;  // bytes that were read
  bytes_written: number;  // bytes that were written
  metadata_count: number;  // calls that move no bytes
  metadata_ns: number;  // time in calls that move no bytes
}

// The I/O on one or several files.
export interface IoTotals {
  opens: number;  // calls that opened a file
  reads: number;  // calls that read
  writes: number;  // calls that wrote
  seeks: number;  // calls that changed the position
  syncs: number;  // calls such as fsync
  metadata: number;  // calls such as stat; without opens, closes, seeks and syncs
  maps: number;  // calls such as mmap
  errors: number;  // calls that failed
  bytes_read: number;  // bytes that were read
  bytes_written: number;  // bytes that were written
  read_ns: number;  // time in reads
  write_ns: number;  // time in writes and syncs
  metadata_ns: number;  // time in opens, closes, seeks and metadata calls
  first_ns: number | null;  // begin of the first use, relative to the begin of the job
  last_ns: number;  // end of the last use
}

// How files were accessed in one direction.
export interface AccessCounts {
  count: number;  // accesses
  transitions: number;  // accesses that follow another one after the same open
  consecutive: number;  // accesses that begin exactly where the last one of this process to the file ended
  sequential: number;  // accesses that begin there or further on
  unaligned_offset: number;  // accesses whose offset is not a multiple of 4096
  unaligned_size: number;  // accesses whose size is not a multiple of 4096
  small: number;  // accesses of less than 64 KiB
  at_end: number;  // reads that returned nothing
  lines: number;  // calls that read a line or a character: fgets, getline, fgetc, fscanf
}

// One file, over the whole job.
export interface FileStats {
  path: string;  // path of the file
  kind: string;  // data, checkpoint, output, system or other
  io: IoTotals;  // the I/O on it
  read: AccessCounts;  // how it was read
  write: AccessCounts;  // how it was written
  size_bytes: number;  // largest size seen: from stat, or the end of an access
  size_known: boolean;  // the size is from stat, a seek to the end, or a read that reached the end
  unique_bytes_read: number;  // distinct bytes that were read; an estimate above 4 MiB
  shared_bytes_read: number;  // part of unique_bytes_read that several ranks read
  ranks: number;  // ranks that read or wrote it
  readers: number;  // ranks that read it
  reader_ranks: string;  // ranks that read it: "0-3,7"; empty above 64 ranks, or without ranks
  epochs: number;  // epochs in which it was read
  direct_opens: number;  // opens with O_DIRECT
  unaligned_direct: number;  // transfers after such opens that were not aligned to 512 bytes
}

// Files of one directory, extension or kind; or calls and files of one host.
export interface GroupStats {
  name: string;  // name of the group
  io: IoTotals;  // the I/O on its files
  files: number;  // files of the group
  size_bytes: number;  // total size of the files
  content: string;  // of an extension: what the first bytes of one of its files are, if it is still there: "text", "numpy", "image", "hdf5", "gzip", "zip", "zip stored", "zstd", "xz", "bzip2", "lz4"; else empty
}

// A value that occurs often.
export interface CommonValue {
  value: number;  // the value
  count: number;  // how often it occurs
}

// How all files together were accessed in one direction.
export interface AccessPattern {
  counts: AccessCounts;  // sums over the files
  sizes: number[];  // accesses by size
  common_sizes: CommonValue[];  // at most four, most frequent first
  common_strides: CommonValue[];  // at most four; between accesses to one file that are not consecutive
}

// How the data files were used.
export interface DataUse {
  files_read: number;  // data files that were read
  files_whole: number;  // files of which every byte was read
  files_opened_unread: number;  // files that were opened but never read
  files_small: number;  // files under 1 MiB
  files_one_rank: number;  // files that one rank read
  files_shared: number;  // files that several ranks read
  files_every_epoch: number;  // files that were read in each of several epochs
  files_once: number;  // files that were opened at most once in the job
  shared_bytes: number;  // distinct bytes that several ranks read
  order: string;  // "sequential" (by name and offset), "fixed" (not by name, but the same in every epoch), "files shuffled" (samples within a file keep their order), "shuffled", "unknown"
  order_repeated: number;  // (rank, epoch) pairs with the same order as the epoch before
  ascending: number;  // changes between files that went up by name
  ascending_within: number;  // jumps within a file that went up by offset
  samples_indexed: number;  // samples whose index in the dataset is known; order then follows from the indices
  index_end: number;  // largest known index, plus 1
  streams: number;  // threads times epochs that read samples of an iterable dataset, which have no index
  stream_first_bytes: number;  // mean of what these read for their first sample: with a shuffle buffer, the bytes that fill it
  stream_first_ns: number;  // mean time for that
  index_ascending: number;  // steps from one sample to the next of the same thread whose index goes up
}

// Activity over the time of the job, in equal bins. The lists have equal lengths: one number per bin.
export interface Timeline {
  bin_ns: number;  // length of a bin
  bytes_read: number[];  // bytes that were read
  bytes_written: number[];  // bytes that were written
  operations: number[];  // calls
  metadata: number[];  // calls that move no bytes
  busy_ns: number[];  // time in I/O calls of all threads; divided by bin_ns: calls in flight
}

// What one rank did in each bin, in thousandths of the bin.
export interface RankActivity {
  name: string;  // as in time.ranks
  io: number[];  // in I/O calls
  compute: number[];  // in compute regions
  wait: number[];  // waiting for data
}

// What each rank did over time.
export interface HeatMap {
  bin_ns: number;  // length of a bin
  ranks: RankActivity[];  // evenly spaced if there are more than a page can show
}

// An interval to draw below the timelines.
export interface Stretch {
  role: string;  // epoch, checkpoint, evaluate or restore
  name: string;  // name of the region
  epoch: number;  // number of the epoch; -1: none
  rank: number;  // index in time.ranks
  begin_ns: number;  // begin, relative to the begin of the job
  end_ns: number;  // end
}

// The regions with one name in one epoch. Times are mean, minimum and maximum over the ranks.
export interface EpochAction {
  name: string;  // name of the regions
  role: string;  // role of the regions
  count: number;  // regions
  mean_ns: number;  // mean time
  min_ns: number;  // least time
  max_ns: number;  // most time
}

// One epoch.
export interface EpochStats {
  epoch: number;  // as the program numbered it
  begin_ns: number;  // begin, relative to the begin of the job
  end_ns: number;  // end
  steps: number;  // steps of the rank with the most
  time: TimeSplit;  // mean over the ranks
  io: IoTotals;  // the I/O in it
  files: number;  // data files that were read
  actions: EpochAction[];  // by name of region
}

// One step of one rank.
export interface StepStats {
  epoch: number;  // number of the epoch; -1: none
  step: number;  // number of the step; -1: none
  rank: number;  // index in time.ranks
  begin_ns: number;  // begin, relative to the begin of the job
  duration_ns: number;  // from waiting for a batch to the end of its compute
  wait_ns: number;  // part of it that waited for data
}

// The steps of all ranks.
export interface Steps {
  duration_ns: Distribution;  // durations
  wait_ns: Distribution;  // waiting per step
  compute_ns: Distribution;  // the rest of each step
  slowest: StepStats[];  // the longest steps
  all: StepStats[];  // all steps; only with --by step
}

// Calls within calls. A node is what was called there; the root has no name.
export interface TreeNode {
  name: string;  // name of the call or region
  layer: string;  // where in the stack the call was made
  parent: number;  // index of an earlier node; the root is its own parent
  count: number;  // calls
  total_ns: number;  // time in the call
  self_ns: number;  // the same without what it called
  bytes: number;  // bytes moved
}

// A checkpoint, found from its regions and the writes to its files.
export interface Checkpoint {
  epoch: number;  // number of the epoch; -1: none
  begin_ns: number;  // begin, relative to the begin of the job
  end_ns: number;  // end
  ranks_writing: number;  // ranks that wrote
  bytes: number;  // bytes that were written
  writes: number;  // calls that wrote
  stalled_ns: number;  // time in which no rank computed
  file: string;  // one of its files
}

// The I/O of one rank, to compare ranks.
export interface RankLoad {
  name: string;  // as in time.ranks
  host: string;  // its host
  io: IoTotals;  // its I/O
  data_files: number;  // data files that it read
  data_bytes_read: number;  // bytes that it read from data files
  threads_reading: number;  // threads that read
  calls_in_flight: number;  // mean number of I/O calls in flight, while there was any
  samples: number;  // samples that it read, as far as regions show
  steps: number;  // its steps
  wait_ns: number;  // waiting for data
  compute_ns: number;  // in compute regions
  end_ns: number;  // end of its last step, relative to the begin of the job; 0: no steps
}

// Time of the training thread in which it neither computed nor waited for data, nor was in any other region with a role. Each row is the calls with one name in such gaps, summed over the ranks; those on files of the system (imports of modules) have rows of their own. A gap is divided among the calls in it by their time. If calls fill less than a tenth of it and are fewer than 20, it belongs to the row without a name.
export interface Stall {
  phase: string;  // "before training" (before the first step of the rank), "in training" or "after training"
  region: string;  // outermost region without a role around the calls; empty: none
  name: string;  // name of the call; empty: time that no call explains
  count: number;  // calls
  time_ns: number;  // time in the calls
  stall_ns: number;  // time of gaps that belongs to the calls
  gaps: number;  // gaps with such calls
  directory: string;  // directory of the files named in most of the calls
  files: number;  // distinct files
}

// How samples became batches. Times are sums over threads and ranks. read_ns to other_ns are exclusive and add up to work_ns.
export interface Loading {
  threads: number;  // threads of one rank that load, besides the one that trains; most of any rank; 0: the training thread loads by itself
  batches: number;  // fetches of a batch
  samples: number;  // samples that were read
  work_ns: number;  // in the outermost regions that fetch or read samples
  read_ns: number;  // part of work_ns: calls that read, of the system or stdio
  metadata_ns: number;  // part of work_ns: opens, closes, seeks, stats and listings
  library_ns: number;  // part of work_ns: calls of format libraries such as HDF5, without the calls they make
  transform_ns: number;  // part of work_ns: regions that transform, without the calls in them
  collate_ns: number;  // part of work_ns: regions that collate, without the calls in them
  other_ns: number;  // part of work_ns: none of these, for example Python code of the dataset
  decode_ns: number;  // part of other_ns: regions that decode images or sound
  decompress_ns: number;  // part of other_ns: regions that decompress
  parse_ns: number;  // part of other_ns: regions that parse text
  opens: number;  // calls in work_ns that opened a file
  stats: number;  // calls such as stat in work_ns, and opens of files that do not exist
  missing: number;  // part of stats: the file does not exist
  lists: number;  // calls that list a directory in work_ns
  reads: number;  // calls in work_ns that read, of the system or stdio
  library_reads: number;  // reads by format libraries in work_ns, for example H5Dread
  library_bytes: number;  // bytes that these returned
  fetch_mean_ns: number;  // mean duration of a fetch
  in_flight: number;  // mean number of fetches in progress, while there was any
  epoch_starts: number;  // passes of the ranks over loaders, evaluations included; without regions of setup, (rank, epoch) pairs
  epoch_starts_ns: number;  // setup and first wait of these
  epoch_starts_first_ns: number;  // the same of the first one of each rank
}

// What a job did, in numbers.
export interface Profile {
  job: Job;  // the job as a whole
  time: SplitOfTime;  // how the time was spent
  layers: LayerStats[];  // layers with events, top to bottom
  functions: FunctionStats[];  // by call or region, longest time first
  reads: AccessPattern;  // all reads
  writes: AccessPattern;  // all writes
  data_reads: AccessPattern;  // reads of data files only: what training reads
  data: DataUse;  // how the data files were used
  files: FileStats[];  // a selection: the files with the most time, bytes and opens
  directories: GroupStats[];  // files by directory; a selection
  extensions: GroupStats[];  // data files and outputs by extension (".jpg"); a selection
  kinds: GroupStats[];  // files by kind
  hosts: GroupStats[];  // calls and files by host
  ranks: RankLoad[];  // load by rank
  loading: Loading;  // how samples became batches
  stalls: Stall[];  // time of the training thread outside all regions with a role; longest first
  timeline: Timeline;  // activity over the job
  heat: HeatMap;  // what each rank did over time
  stretches: Stretch[];  // intervals to draw: epochs, checkpoints, evaluations and restores
  epochs: EpochStats[];  // by epoch
  steps: Steps;  // durations of steps
  tree: TreeNode[];  // calls within calls; the first node is the root
  checkpoints: Checkpoint[];  // by checkpoint
  problems: string[];  // what could not be read, as sentences
}
