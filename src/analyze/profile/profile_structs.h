// The structs of a profile and their fields. Written by tools/profile_schema.py from
// src/analyze/profile/profile.schema: change that.
//
// visit_fields(visit, value...) calls visit(field, member...) for each field of a struct. Writers
// and readers are visitors, so no field can be forgotten or have two names.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyze/profile/field.h"
#include "base/numbers/log_histogram.h"

// clang-format off
namespace millrace::analyze {

// The rank of a quantile is within 1 % of the exact one; everything else is exact.
struct Distribution {
  uint64_t count = 0;  // number of values
  uint64_t sum = 0;  // sum of the values
  uint64_t min = 0;  // smallest value
  uint64_t p25 = 0;  // quantile: 25 % of the values are below
  double mean = 0;  // arithmetic mean
  uint64_t median = 0;  // quantile: half of the values are below
  uint64_t p75 = 0;  // quantile
  uint64_t p95 = 0;  // quantile
  uint64_t p99 = 0;  // quantile
  uint64_t max = 0;  // largest value
};
template <> inline constexpr bool kOnOneLine<Distribution> = true;

// The job as a whole.
struct Job {
  std::vector<std::string> traces;  // as the user gave them
  std::string command;  // command of the main process of the first rank
  std::string framework;  // "pytorch", "tensorflow", "jax"; empty: none was found
  std::vector<std::string> hosts;  // names of the hosts
  uint64_t cores = 0;  // CPUs that a process of the job may use, least over the hosts; 0: unknown
  uint32_t ranks = 0;  // groups of processes that train as one rank; at least 1
  uint32_t failed_ranks = 0;  // ranks whose main process exited with a code other than 0
  int64_t exit_code = 0;  // exit code of the first failed rank
  uint64_t processes = 0;  // processes of all ranks
  uint64_t threads = 0;  // threads of all processes
  uint64_t compute_threads = 0;  // threads with compute regions
  uint64_t io_threads = 0;  // threads that read or wrote bytes
  int64_t begin_wall_ns = 0;  // begin of the first event, since 1970-01-01 UTC
  uint64_t begin_ns = 0;  // the same on the clock of the trace; other times are relative to it
  uint64_t wall_ns = 0;  // from the begin of the first event to the end of the last
  uint64_t events = 0;  // events in the trace
  uint64_t lost_events = 0;  // events that could not be recorded
  uint64_t files = 0;  // all files used, of any kind
  uint64_t dataset_files = 0;  // data files
  uint64_t dataset_bytes = 0;  // total size of the data files, as far as the trace shows
  uint64_t dataset_bytes_read = 0;  // bytes read from data files
  uint64_t dataset_unique_bytes = 0;  // the same without repeated reads of the same bytes
  uint64_t bytes_read = 0;  // by system calls and stdio, from all kinds of files
  uint64_t bytes_written = 0;  // by system calls and stdio, to all kinds of files
  double amplification = 0;  // dataset bytes read per epoch, divided by dataset_bytes; 0: unknown
  uint64_t epochs = 0;  // epochs that regions mark; 0: none
  uint64_t steps = 0;  // steps that regions mark, of the rank with the most; 0: none
  bool direct_io = false;  // a file was opened with O_DIRECT
  bool mapped_io = false;  // files were mapped: their reads are not recorded one by one
  bool uring_io = false;  // io_uring was used
};

// How the time of one rank, one host or the job was spent. Every time is the length of a union of
// intervals: two threads that read at the same time count once.
struct TimeSplit {
  std::string name;  // "job", "mean", "node7", "rank 3"
  uint64_t wall_ns = 0;  // whole time
  uint64_t startup_ns = 0;  // part of wall_ns before training; 0: it is not known when training begins
  uint64_t training_ns = 0;  // part of wall_ns in training: from the first request for a batch to the end of the last step; without steps, from the first region of waiting, fetching or compute to the last; all of wall_ns if there is no compute either
  uint64_t compute_ns = 0;  // computing: the accelerator's own time if it is known, otherwise compute regions of the host
  uint64_t io_ns = 0;  // in I/O calls of any library or the system
  uint64_t fetch_ns = 0;  // in regions that fetch or read
  uint64_t decode_ns = 0;  // in regions that decode, decompress or parse
  uint64_t transform_ns = 0;  // in regions that transform or collate
  uint64_t checkpoint_ns = 0;  // in checkpoints and restores
  uint64_t communicate_ns = 0;  // in regions that communicate
  uint64_t wait_ns = 0;  // training waited for data; measured according to the basis. If the accelerator's time is known, only while it did not compute
  uint64_t wait_overlapped_ns = 0;  // the host waited for data while the accelerator still computed; not in wait_ns
  uint64_t launch_ns = 0;  // the host was in compute regions while compute is measured on the accelerator: it launches kernels, or waits for them
  uint64_t copy_ns = 0;  // copying to or from the accelerator: its own time, or regions of the host
  uint64_t io_overlapped_ns = 0;  // I/O that overlaps with compute
  uint64_t io_exposed_ns = 0;  // I/O that does not overlap with compute
  uint64_t fetch_exposed_ns = 0;  // fetching, decoding or transforming that does not overlap with compute
  uint64_t compute_exposed_ns = 0;  // compute that does not overlap with I/O
  uint64_t idle_ns = 0;  // none of the above
  uint64_t step_ns = 0;  // in steps: from waiting for a batch to the end of its compute
  double wait_share = 0;  // waiting in training over training_ns: the share that the verdict names
  double step_wait_share = 0;  // waiting in steps over step_ns; 0: no steps are known
};

// How the time was spent.
struct SplitOfTime {
  ComputeBasis compute_basis{};  // how compute was measured: "regions" of the host, "device" (the accelerator's own clock), "both" (device for some ranks only)
  WaitBasis basis{};  // how waiting was measured: "regions", "io time" (no regions: the time of the main process in I/O calls), "none"
  TimeSplit job;  // all ranks together
  TimeSplit mean;  // mean over the ranks: what one rank experiences
  std::vector<TimeSplit> hosts;  // by host
  std::vector<TimeSplit> ranks;  // by rank
};

// All calls of one function, or all regions with one name.
struct FunctionStats {
  std::string name;  // name of the call or region
  Layer layer{};  // where in the stack the call was made
  wire::CallKind kind{};  // what the call does
  Role role{};  // role of a region
  uint64_t count = 0;  // calls
  uint64_t errors = 0;  // calls that failed
  uint64_t time_ns = 0;  // sum of durations
  uint64_t bytes = 0;  // bytes moved
  Distribution size_bytes;  // bytes moved per call, for calls that move bytes
  Distribution latency_ns;  // durations
  LogHistogram size_bins;  // calls by bytes moved
  LogHistogram latency_bins;  // calls by duration in ns
};

// All calls or regions of one layer.
struct LayerStats {
  Layer layer{};  // the layer
  uint64_t count = 0;  // calls or regions
  uint64_t time_ns = 0;  // sum of durations
  uint64_t busy_ns = 0;  // union of the durations per rank, summed over the ranks
  uint64_t overlapped_ns = 0;  // part of busy_ns in which the same rank computed
  uint64_t bytes_read = 0;  // bytes that were read
  uint64_t bytes_written = 0;  // bytes that were written
  uint64_t metadata_count = 0;  // calls that move no bytes
  uint64_t metadata_ns = 0;  // time in calls that move no bytes
};

// The I/O on one or several files.
struct IoTotals {
  uint64_t opens = 0;  // calls that opened a file
  uint64_t reads = 0;  // calls that read
  uint64_t writes = 0;  // calls that wrote
  uint64_t seeks = 0;  // calls that changed the position
  uint64_t syncs = 0;  // calls such as fsync
  uint64_t metadata = 0;  // calls such as stat; without opens, closes, seeks and syncs
  uint64_t maps = 0;  // calls such as mmap
  uint64_t errors = 0;  // calls that failed
  uint64_t bytes_read = 0;  // bytes that were read
  uint64_t bytes_written = 0;  // bytes that were written
  uint64_t read_ns = 0;  // time in reads
  uint64_t write_ns = 0;  // time in writes and syncs
  uint64_t metadata_ns = 0;  // time in opens, closes, seeks and metadata calls
  uint64_t first_ns = kMissing;  // begin of the first use, relative to the begin of the job
  uint64_t last_ns = 0;  // end of the last use
};
template <> inline constexpr bool kOnOneLine<IoTotals> = true;

// How files were accessed in one direction.
struct AccessCounts {
  uint64_t count = 0;  // accesses
  uint64_t transitions = 0;  // accesses that follow another one after the same open
  uint64_t consecutive = 0;  // accesses that begin exactly where the last one of this process to the file ended
  uint64_t sequential = 0;  // accesses that begin there or further on
  uint64_t unaligned_offset = 0;  // accesses whose offset is not a multiple of 4096
  uint64_t unaligned_size = 0;  // accesses whose size is not a multiple of 4096
  uint64_t small = 0;  // accesses of less than 64 KiB
  uint64_t at_end = 0;  // reads that returned nothing
  uint64_t lines = 0;  // calls that read a line or a character: fgets, getline, fgetc, fscanf
};
template <> inline constexpr bool kOnOneLine<AccessCounts> = true;

// One file, over the whole job.
struct FileStats {
  std::string path;  // path of the file
  FileKind kind{};  // data, checkpoint, output, system or other
  IoTotals io;  // the I/O on it
  AccessCounts read;  // how it was read
  AccessCounts write;  // how it was written
  uint64_t size_bytes = 0;  // largest size seen: from stat, or the end of an access
  bool size_known = false;  // the size is from stat, a seek to the end, or a read that reached the end
  uint64_t unique_bytes_read = 0;  // distinct bytes that were read; an estimate above 4 MiB
  uint64_t shared_bytes_read = 0;  // part of unique_bytes_read that several ranks read
  uint32_t ranks = 0;  // ranks that read or wrote it
  uint32_t readers = 0;  // ranks that read it
  std::string reader_ranks;  // ranks that read it: "0-3,7"; empty above 64 ranks, or without ranks
  uint32_t epochs = 0;  // epochs in which it was read
  uint64_t direct_opens = 0;  // opens with O_DIRECT
  uint64_t unaligned_direct = 0;  // transfers after such opens that were not aligned to 512 bytes
};

// Files of one directory, extension or kind; or calls and files of one host.
struct GroupStats {
  std::string name;  // name of the group
  IoTotals io;  // the I/O on its files
  uint64_t files = 0;  // files of the group
  uint64_t size_bytes = 0;  // total size of the files
  std::string content;  // of an extension: what the first bytes of one of its files are, if it is still there: "text", "numpy", "image", "hdf5", "gzip", "zip", "zip stored", "zstd", "xz", "bzip2", "lz4"; else empty
};

// A value that occurs often.
struct CommonValue {
  uint64_t value = 0;  // the value
  uint64_t count = 0;  // how often it occurs
};
template <> inline constexpr bool kOnOneLine<CommonValue> = true;

// How all files together were accessed in one direction.
struct AccessPattern {
  AccessCounts counts;  // sums over the files
  LogHistogram sizes;  // accesses by size
  std::vector<CommonValue> common_sizes;  // at most four, most frequent first
  std::vector<CommonValue> common_strides;  // at most four; between accesses to one file that are not consecutive
};

// How the data files were used.
struct DataUse {
  uint64_t files_read = 0;  // data files that were read
  uint64_t files_whole = 0;  // files of which every byte was read
  uint64_t files_opened_unread = 0;  // files that were opened but never read
  uint64_t files_small = 0;  // files under 1 MiB
  uint64_t files_one_rank = 0;  // files that one rank read
  uint64_t files_shared = 0;  // files that several ranks read
  uint64_t files_every_epoch = 0;  // files that were read in each of several epochs
  uint64_t files_once = 0;  // files that were opened at most once in the job
  uint64_t shared_bytes = 0;  // distinct bytes that several ranks read
  ReadOrder order{};  // "sequential" (by name and offset), "fixed" (not by name, but the same in every epoch), "files shuffled" (samples within a file keep their order), "shuffled", "unknown"
  double order_repeated = 0;  // (rank, epoch) pairs with the same order as the epoch before
  double ascending = 0;  // changes between files that went up by name
  double ascending_within = 0;  // jumps within a file that went up by offset
  uint64_t samples_indexed = 0;  // samples whose index in the dataset is known; order then follows from the indices
  uint64_t index_end = 0;  // largest known index, plus 1
  uint64_t streams = 0;  // threads times epochs that read samples of an iterable dataset, which have no index
  uint64_t stream_first_bytes = 0;  // mean of what these read for their first sample: with a shuffle buffer, the bytes that fill it
  uint64_t stream_first_ns = 0;  // mean time for that
  double index_ascending = 0;  // steps from one sample to the next of the same thread whose index goes up
};

// Activity over the time of the job, in equal bins. The lists have equal lengths: one number per bin.
struct Timeline {
  uint64_t bin_ns = 0;  // length of a bin
  std::vector<uint64_t> bytes_read;  // bytes that were read
  std::vector<uint64_t> bytes_written;  // bytes that were written
  std::vector<uint64_t> operations;  // calls
  std::vector<uint64_t> metadata;  // calls that move no bytes
  std::vector<uint64_t> busy_ns;  // time in I/O calls of all threads; divided by bin_ns: calls in flight
};

// What one rank did in each bin, in thousandths of the bin.
struct RankActivity {
  std::string name;  // as in time.ranks
  std::vector<uint16_t> io;  // in I/O calls
  std::vector<uint16_t> compute;  // in compute regions
  std::vector<uint16_t> wait;  // waiting for data
};

// What each rank did over time.
struct HeatMap {
  uint64_t bin_ns = 0;  // length of a bin
  std::vector<RankActivity> ranks;  // evenly spaced if there are more than a page can show
};

// An interval to draw below the timelines.
struct Stretch {
  Role role{};  // epoch, checkpoint, evaluate or restore
  std::string name;  // name of the region
  int64_t epoch = -1;  // number of the epoch; -1: none
  uint32_t rank = 0;  // index in time.ranks
  uint64_t begin_ns = 0;  // begin, relative to the begin of the job
  uint64_t end_ns = 0;  // end
};
template <> inline constexpr bool kOnOneLine<Stretch> = true;

// The regions with one name in one epoch. Times are mean, minimum and maximum over the ranks.
struct EpochAction {
  std::string name;  // name of the regions
  Role role{};  // role of the regions
  uint64_t count = 0;  // regions
  uint64_t mean_ns = 0;  // mean time
  uint64_t min_ns = 0;  // least time
  uint64_t max_ns = 0;  // most time
};
template <> inline constexpr bool kOnOneLine<EpochAction> = true;

// One epoch.
struct EpochStats {
  int64_t epoch = 0;  // as the program numbered it
  uint64_t begin_ns = 0;  // begin, relative to the begin of the job
  uint64_t end_ns = 0;  // end
  uint64_t steps = 0;  // steps of the rank with the most
  TimeSplit time;  // mean over the ranks
  IoTotals io;  // the I/O in it
  uint64_t files = 0;  // data files that were read
  std::vector<EpochAction> actions;  // by name of region
};

// One step of one rank.
struct StepStats {
  int64_t epoch = -1;  // number of the epoch; -1: none
  int64_t step = -1;  // number of the step; -1: none
  uint32_t rank = 0;  // index in time.ranks
  uint64_t begin_ns = 0;  // begin, relative to the begin of the job
  uint64_t duration_ns = 0;  // from waiting for a batch to the end of its compute
  uint64_t wait_ns = 0;  // part of it that waited for data
};
template <> inline constexpr bool kOnOneLine<StepStats> = true;

// The steps of all ranks.
struct Steps {
  Distribution duration_ns;  // durations
  Distribution wait_ns;  // waiting per step
  Distribution compute_ns;  // the rest of each step
  std::vector<StepStats> slowest;  // the longest steps
  std::vector<StepStats> all;  // all steps; only with --by step
};

// Calls within calls. A node is what was called there; the root has no name.
struct TreeNode {
  std::string name;  // name of the call or region
  Layer layer{};  // where in the stack the call was made
  uint32_t parent = 0;  // index of an earlier node; the root is its own parent
  uint64_t count = 0;  // calls
  uint64_t total_ns = 0;  // time in the call
  uint64_t self_ns = 0;  // the same without what it called
  uint64_t bytes = 0;  // bytes moved
};
template <> inline constexpr bool kOnOneLine<TreeNode> = true;

// A checkpoint, found from its regions and the writes to its files.
struct Checkpoint {
  int64_t epoch = -1;  // number of the epoch; -1: none
  uint64_t begin_ns = 0;  // begin, relative to the begin of the job
  uint64_t end_ns = 0;  // end
  uint32_t ranks_writing = 0;  // ranks that wrote
  uint64_t bytes = 0;  // bytes that were written
  uint64_t writes = 0;  // calls that wrote
  uint64_t stalled_ns = 0;  // time in which no rank computed
  std::string file;  // one of its files
};
template <> inline constexpr bool kOnOneLine<Checkpoint> = true;

// The I/O of one rank, to compare ranks.
struct RankLoad {
  std::string name;  // as in time.ranks
  std::string host;  // its host
  IoTotals io;  // its I/O
  uint64_t data_files = 0;  // data files that it read
  uint64_t data_bytes_read = 0;  // bytes that it read from data files
  uint64_t threads_reading = 0;  // threads that read
  double calls_in_flight = 0;  // mean number of I/O calls in flight, while there was any
  uint64_t samples = 0;  // samples that it read, as far as regions show
  uint64_t steps = 0;  // its steps
  uint64_t wait_ns = 0;  // waiting for data
  uint64_t compute_ns = 0;  // in compute regions
  uint64_t end_ns = 0;  // end of its last step, relative to the begin of the job; 0: no steps
};

// Time of the training thread in which it neither computed nor waited for data, nor was in any other
// region with a role. Each row is the calls with one name in such gaps, summed over the ranks; those
// on files of the system (imports of modules) have rows of their own. A gap is divided among the
// calls in it by their time. If calls fill less than a tenth of it and are fewer than 20, it belongs
// to the row without a name.
struct Stall {
  std::string phase;  // "before training" (before the first step of the rank), "in training" or "after training"
  std::string region;  // outermost region without a role around the calls; empty: none
  std::string name;  // name of the call; empty: time that no call explains
  uint64_t count = 0;  // calls
  uint64_t time_ns = 0;  // time in the calls
  uint64_t stall_ns = 0;  // time of gaps that belongs to the calls
  uint64_t gaps = 0;  // gaps with such calls
  std::string directory;  // directory of the files named in most of the calls
  uint64_t files = 0;  // distinct files
};
template <> inline constexpr bool kOnOneLine<Stall> = true;

// How samples became batches. Times are sums over threads and ranks. read_ns to other_ns are
// exclusive and add up to work_ns.
struct Loading {
  uint64_t threads = 0;  // threads of one rank that load, besides the one that trains; most of any rank; 0: the training thread loads by itself
  uint64_t batches = 0;  // fetches of a batch
  uint64_t samples = 0;  // samples that were read
  uint64_t work_ns = 0;  // in the outermost regions that fetch or read samples
  uint64_t read_ns = 0;  // part of work_ns: calls that read, of the system or stdio
  uint64_t metadata_ns = 0;  // part of work_ns: opens, closes, seeks, stats and listings
  uint64_t library_ns = 0;  // part of work_ns: calls of format libraries such as HDF5, without the calls they make
  uint64_t transform_ns = 0;  // part of work_ns: regions that transform, without the calls in them
  uint64_t collate_ns = 0;  // part of work_ns: regions that collate, without the calls in them
  uint64_t other_ns = 0;  // part of work_ns: none of these, for example Python code of the dataset
  uint64_t decode_ns = 0;  // part of other_ns: regions that decode images or sound
  uint64_t decompress_ns = 0;  // part of other_ns: regions that decompress
  uint64_t parse_ns = 0;  // part of other_ns: regions that parse text
  uint64_t opens = 0;  // calls in work_ns that opened a file
  uint64_t stats = 0;  // calls such as stat in work_ns, and opens of files that do not exist
  uint64_t missing = 0;  // part of stats: the file does not exist
  uint64_t lists = 0;  // calls that list a directory in work_ns
  uint64_t reads = 0;  // calls in work_ns that read, of the system or stdio
  uint64_t library_reads = 0;  // reads by format libraries in work_ns, for example H5Dread
  uint64_t library_bytes = 0;  // bytes that these returned
  uint64_t fetch_mean_ns = 0;  // mean duration of a fetch
  double in_flight = 0;  // mean number of fetches in progress, while there was any
  uint64_t epoch_starts = 0;  // passes of the ranks over loaders, evaluations included; without regions of setup, (rank, epoch) pairs
  uint64_t epoch_starts_ns = 0;  // setup and first wait of these
  uint64_t epoch_starts_first_ns = 0;  // the same of the first one of each rank
};

// What a job did, in numbers.
struct Profile {
  Job job;  // the job as a whole
  SplitOfTime time;  // how the time was spent
  std::vector<LayerStats> layers;  // layers with events, top to bottom
  std::vector<FunctionStats> functions;  // by call or region, longest time first
  AccessPattern reads;  // all reads
  AccessPattern writes;  // all writes
  AccessPattern data_reads;  // reads of data files only: what training reads
  DataUse data;  // how the data files were used
  std::vector<FileStats> files;  // a selection: the files with the most time, bytes and opens
  std::vector<GroupStats> directories;  // files by directory; a selection
  std::vector<GroupStats> extensions;  // data files and outputs by extension (".jpg"); a selection
  std::vector<GroupStats> kinds;  // files by kind
  std::vector<GroupStats> hosts;  // calls and files by host
  std::vector<RankLoad> ranks;  // load by rank
  Loading loading;  // how samples became batches
  std::vector<Stall> stalls;  // time of the training thread outside all regions with a role; longest first
  Timeline timeline;  // activity over the job
  HeatMap heat;  // what each rank did over time
  std::vector<Stretch> stretches;  // intervals to draw: epochs, checkpoints, evaluations and restores
  std::vector<EpochStats> epochs;  // by epoch
  Steps steps;  // durations of steps
  std::vector<TreeNode> tree;  // calls within calls; the first node is the root
  std::vector<Checkpoint> checkpoints;  // by checkpoint
  std::vector<std::string> problems;  // what could not be read, as sentences
};

void visit_fields(auto& visit, Of<Distribution> auto&... of) {
  visit(Field{.name = "count", .unit = Unit::kCount, .meaning = "number of values"}, of.count...);
  visit(Field{.name = "sum", .unit = Unit::kNone, .meaning = "sum of the values"}, of.sum...);
  visit(Field{.name = "min", .unit = Unit::kNone, .meaning = "smallest value"}, of.min...);
  visit(Field{.name = "p25", .unit = Unit::kNone, .meaning = "quantile: 25 % of the values are below"}, of.p25...);
  visit(Field{.name = "mean", .unit = Unit::kNone, .meaning = "arithmetic mean"}, of.mean...);
  visit(Field{.name = "median", .unit = Unit::kNone, .meaning = "quantile: half of the values are below"}, of.median...);
  visit(Field{.name = "p75", .unit = Unit::kNone, .meaning = "quantile"}, of.p75...);
  visit(Field{.name = "p95", .unit = Unit::kNone, .meaning = "quantile"}, of.p95...);
  visit(Field{.name = "p99", .unit = Unit::kNone, .meaning = "quantile"}, of.p99...);
  visit(Field{.name = "max", .unit = Unit::kNone, .meaning = "largest value"}, of.max...);
}

void visit_fields(auto& visit, Of<Job> auto&... of) {
  visit(Field{.name = "traces", .unit = Unit::kText, .meaning = "as the user gave them"}, of.traces...);
  visit(Field{.name = "command", .unit = Unit::kText, .meaning = "command of the main process of the first rank"}, of.command...);
  visit(Field{.name = "framework", .unit = Unit::kText, .meaning = "\"pytorch\", \"tensorflow\", \"jax\"; empty: none was found"}, of.framework...);
  visit(Field{.name = "hosts", .unit = Unit::kText, .meaning = "names of the hosts"}, of.hosts...);
  visit(Field{.name = "cores", .unit = Unit::kCount, .meaning = "CPUs that a process of the job may use, least over the hosts; 0: unknown"}, of.cores...);
  visit(Field{.name = "ranks", .unit = Unit::kCount, .meaning = "groups of processes that train as one rank; at least 1"}, of.ranks...);
  visit(Field{.name = "failed_ranks", .unit = Unit::kCount, .meaning = "ranks whose main process exited with a code other than 0"}, of.failed_ranks...);
  visit(Field{.name = "exit_code", .unit = Unit::kNone, .meaning = "exit code of the first failed rank"}, of.exit_code...);
  visit(Field{.name = "processes", .unit = Unit::kCount, .meaning = "processes of all ranks"}, of.processes...);
  visit(Field{.name = "threads", .unit = Unit::kCount, .meaning = "threads of all processes"}, of.threads...);
  visit(Field{.name = "compute_threads", .unit = Unit::kCount, .meaning = "threads with compute regions"}, of.compute_threads...);
  visit(Field{.name = "io_threads", .unit = Unit::kCount, .meaning = "threads that read or wrote bytes"}, of.io_threads...);
  visit(Field{.name = "begin_wall_ns", .unit = Unit::kNs, .meaning = "begin of the first event, since 1970-01-01 UTC"}, of.begin_wall_ns...);
  visit(Field{.name = "begin_ns", .unit = Unit::kNs, .meaning = "the same on the clock of the trace; other times are relative to it"}, of.begin_ns...);
  visit(Field{.name = "wall_ns", .unit = Unit::kNs, .meaning = "from the begin of the first event to the end of the last"}, of.wall_ns...);
  visit(Field{.name = "events", .unit = Unit::kCount, .meaning = "events in the trace"}, of.events...);
  visit(Field{.name = "lost_events", .unit = Unit::kCount, .meaning = "events that could not be recorded"}, of.lost_events...);
  visit(Field{.name = "files", .unit = Unit::kCount, .meaning = "all files used, of any kind"}, of.files...);
  visit(Field{.name = "dataset_files", .unit = Unit::kCount, .meaning = "data files"}, of.dataset_files...);
  visit(Field{.name = "dataset_bytes", .unit = Unit::kBytes, .meaning = "total size of the data files, as far as the trace shows"}, of.dataset_bytes...);
  visit(Field{.name = "dataset_bytes_read", .unit = Unit::kBytes, .meaning = "bytes read from data files"}, of.dataset_bytes_read...);
  visit(Field{.name = "dataset_unique_bytes", .unit = Unit::kBytes, .meaning = "the same without repeated reads of the same bytes"}, of.dataset_unique_bytes...);
  visit(Field{.name = "bytes_read", .unit = Unit::kBytes, .meaning = "by system calls and stdio, from all kinds of files"}, of.bytes_read...);
  visit(Field{.name = "bytes_written", .unit = Unit::kBytes, .meaning = "by system calls and stdio, to all kinds of files"}, of.bytes_written...);
  visit(Field{.name = "amplification", .unit = Unit::kNone, .meaning = "dataset bytes read per epoch, divided by dataset_bytes; 0: unknown"}, of.amplification...);
  visit(Field{.name = "epochs", .unit = Unit::kCount, .meaning = "epochs that regions mark; 0: none"}, of.epochs...);
  visit(Field{.name = "steps", .unit = Unit::kCount, .meaning = "steps that regions mark, of the rank with the most; 0: none"}, of.steps...);
  visit(Field{.name = "direct_io", .unit = Unit::kNone, .meaning = "a file was opened with O_DIRECT"}, of.direct_io...);
  visit(Field{.name = "mapped_io", .unit = Unit::kNone, .meaning = "files were mapped: their reads are not recorded one by one"}, of.mapped_io...);
  visit(Field{.name = "uring_io", .unit = Unit::kNone, .meaning = "io_uring was used"}, of.uring_io...);
}

void visit_fields(auto& visit, Of<TimeSplit> auto&... of) {
  visit(Field{.name = "name", .unit = Unit::kText, .meaning = "\"job\", \"mean\", \"node7\", \"rank 3\""}, of.name...);
  visit(Field{.name = "wall_ns", .unit = Unit::kNs, .meaning = "whole time"}, of.wall_ns...);
  visit(Field{.name = "startup_ns", .unit = Unit::kNs, .meaning = "part of wall_ns before training; 0: it is not known when training begins"}, of.startup_ns...);
  visit(Field{.name = "training_ns", .unit = Unit::kNs, .meaning = "part of wall_ns in training: from the first request for a batch to the end of the last step; without steps, from the first region of waiting, fetching or compute to the last; all of wall_ns if there is no compute either"}, of.training_ns...);
  visit(Field{.name = "compute_ns", .unit = Unit::kNs, .meaning = "computing: the accelerator's own time if it is known, otherwise compute regions of the host"}, of.compute_ns...);
  visit(Field{.name = "io_ns", .unit = Unit::kNs, .meaning = "in I/O calls of any library or the system"}, of.io_ns...);
  visit(Field{.name = "fetch_ns", .unit = Unit::kNs, .meaning = "in regions that fetch or read"}, of.fetch_ns...);
  visit(Field{.name = "decode_ns", .unit = Unit::kNs, .meaning = "in regions that decode, decompress or parse"}, of.decode_ns...);
  visit(Field{.name = "transform_ns", .unit = Unit::kNs, .meaning = "in regions that transform or collate"}, of.transform_ns...);
  visit(Field{.name = "checkpoint_ns", .unit = Unit::kNs, .meaning = "in checkpoints and restores"}, of.checkpoint_ns...);
  visit(Field{.name = "communicate_ns", .unit = Unit::kNs, .meaning = "in regions that communicate"}, of.communicate_ns...);
  visit(Field{.name = "wait_ns", .unit = Unit::kNs, .meaning = "training waited for data; measured according to the basis. If the accelerator's time is known, only while it did not compute"}, of.wait_ns...);
  visit(Field{.name = "wait_overlapped_ns", .unit = Unit::kNs, .meaning = "the host waited for data while the accelerator still computed; not in wait_ns"}, of.wait_overlapped_ns...);
  visit(Field{.name = "launch_ns", .unit = Unit::kNs, .meaning = "the host was in compute regions while compute is measured on the accelerator: it launches kernels, or waits for them"}, of.launch_ns...);
  visit(Field{.name = "copy_ns", .unit = Unit::kNs, .meaning = "copying to or from the accelerator: its own time, or regions of the host"}, of.copy_ns...);
  visit(Field{.name = "io_overlapped_ns", .unit = Unit::kNs, .meaning = "I/O that overlaps with compute"}, of.io_overlapped_ns...);
  visit(Field{.name = "io_exposed_ns", .unit = Unit::kNs, .meaning = "I/O that does not overlap with compute"}, of.io_exposed_ns...);
  visit(Field{.name = "fetch_exposed_ns", .unit = Unit::kNs, .meaning = "fetching, decoding or transforming that does not overlap with compute"}, of.fetch_exposed_ns...);
  visit(Field{.name = "compute_exposed_ns", .unit = Unit::kNs, .meaning = "compute that does not overlap with I/O"}, of.compute_exposed_ns...);
  visit(Field{.name = "idle_ns", .unit = Unit::kNs, .meaning = "none of the above"}, of.idle_ns...);
  visit(Field{.name = "step_ns", .unit = Unit::kNs, .meaning = "in steps: from waiting for a batch to the end of its compute"}, of.step_ns...);
  visit(Field{.name = "wait_share", .unit = Unit::kShare, .meaning = "waiting in training over training_ns: the share that the verdict names"}, of.wait_share...);
  visit(Field{.name = "step_wait_share", .unit = Unit::kShare, .meaning = "waiting in steps over step_ns; 0: no steps are known"}, of.step_wait_share...);
}

void visit_fields(auto& visit, Of<SplitOfTime> auto&... of) {
  visit(Field{.name = "compute_basis", .unit = Unit::kText, .meaning = "how compute was measured: \"regions\" of the host, \"device\" (the accelerator's own clock), \"both\" (device for some ranks only)"}, of.compute_basis...);
  visit(Field{.name = "basis", .unit = Unit::kText, .meaning = "how waiting was measured: \"regions\", \"io time\" (no regions: the time of the main process in I/O calls), \"none\""}, of.basis...);
  visit(Field{.name = "job", .unit = Unit::kNone, .meaning = "all ranks together"}, of.job...);
  visit(Field{.name = "mean", .unit = Unit::kNone, .meaning = "mean over the ranks: what one rank experiences"}, of.mean...);
  visit(Field{.name = "hosts", .unit = Unit::kNone, .meaning = "by host"}, of.hosts...);
  visit(Field{.name = "ranks", .unit = Unit::kNone, .meaning = "by rank"}, of.ranks...);
}

void visit_fields(auto& visit, Of<FunctionStats> auto&... of) {
  visit(Field{.name = "name", .unit = Unit::kText, .meaning = "name of the call or region"}, of.name...);
  visit(Field{.name = "layer", .unit = Unit::kText, .meaning = "where in the stack the call was made"}, of.layer...);
  visit(Field{.name = "kind", .unit = Unit::kText, .meaning = "what the call does"}, of.kind...);
  visit(Field{.name = "role", .unit = Unit::kText, .meaning = "role of a region"}, of.role...);
  visit(Field{.name = "count", .unit = Unit::kCount, .meaning = "calls"}, of.count...);
  visit(Field{.name = "errors", .unit = Unit::kCount, .meaning = "calls that failed"}, of.errors...);
  visit(Field{.name = "time_ns", .unit = Unit::kNs, .meaning = "sum of durations"}, of.time_ns...);
  visit(Field{.name = "bytes", .unit = Unit::kBytes, .meaning = "bytes moved"}, of.bytes...);
  visit(Field{.name = "size_bytes", .unit = Unit::kBytes, .meaning = "bytes moved per call, for calls that move bytes"}, of.size_bytes...);
  visit(Field{.name = "latency_ns", .unit = Unit::kNs, .meaning = "durations"}, of.latency_ns...);
  visit(Field{.name = "size_bins", .unit = Unit::kCount, .meaning = "calls by bytes moved"}, of.size_bins...);
  visit(Field{.name = "latency_bins", .unit = Unit::kCount, .meaning = "calls by duration in ns"}, of.latency_bins...);
}

void visit_fields(auto& visit, Of<LayerStats> auto&... of) {
  visit(Field{.name = "layer", .unit = Unit::kText, .meaning = "the layer"}, of.layer...);
  visit(Field{.name = "count", .unit = Unit::kCount, .meaning = "calls or regions"}, of.count...);
  visit(Field{.name = "time_ns", .unit = Unit::kNs, .meaning = "sum of durations"}, of.time_ns...);
  visit(Field{.name = "busy_ns", .unit = Unit::kNs, .meaning = "union of the durations per rank, summed over the ranks"}, of.busy_ns...);
  visit(Field{.name = "overlapped_ns", .unit = Unit::kNs, .meaning = "part of busy_ns in which the same rank computed"}, of.overlapped_ns...);
  visit(Field{.name = "bytes_read", .unit = Unit::kBytes, .meaning = "bytes that were read"}, of.bytes_read...);
  visit(Field{.name = "bytes_written", .unit = Unit::kBytes, .meaning = "bytes that were written"}, of.bytes_written...);
  visit(Field{.name = "metadata_count", .unit = Unit::kCount, .meaning = "calls that move no bytes"}, of.metadata_count...);
  visit(Field{.name = "metadata_ns", .unit = Unit::kNs, .meaning = "time in calls that move no bytes"}, of.metadata_ns...);
}

void visit_fields(auto& visit, Of<IoTotals> auto&... of) {
  visit(Field{.name = "opens", .unit = Unit::kCount, .meaning = "calls that opened a file"}, of.opens...);
  visit(Field{.name = "reads", .unit = Unit::kCount, .meaning = "calls that read"}, of.reads...);
  visit(Field{.name = "writes", .unit = Unit::kCount, .meaning = "calls that wrote"}, of.writes...);
  visit(Field{.name = "seeks", .unit = Unit::kCount, .meaning = "calls that changed the position"}, of.seeks...);
  visit(Field{.name = "syncs", .unit = Unit::kCount, .meaning = "calls such as fsync"}, of.syncs...);
  visit(Field{.name = "metadata", .unit = Unit::kCount, .meaning = "calls such as stat; without opens, closes, seeks and syncs"}, of.metadata...);
  visit(Field{.name = "maps", .unit = Unit::kCount, .meaning = "calls such as mmap"}, of.maps...);
  visit(Field{.name = "errors", .unit = Unit::kCount, .meaning = "calls that failed"}, of.errors...);
  visit(Field{.name = "bytes_read", .unit = Unit::kBytes, .meaning = "bytes that were read"}, of.bytes_read...);
  visit(Field{.name = "bytes_written", .unit = Unit::kBytes, .meaning = "bytes that were written"}, of.bytes_written...);
  visit(Field{.name = "read_ns", .unit = Unit::kNs, .meaning = "time in reads"}, of.read_ns...);
  visit(Field{.name = "write_ns", .unit = Unit::kNs, .meaning = "time in writes and syncs"}, of.write_ns...);
  visit(Field{.name = "metadata_ns", .unit = Unit::kNs, .meaning = "time in opens, closes, seeks and metadata calls"}, of.metadata_ns...);
  visit(Field{.name = "first_ns", .unit = Unit::kNs, .optional = true, .meaning = "begin of the first use, relative to the begin of the job"}, of.first_ns...);
  visit(Field{.name = "last_ns", .unit = Unit::kNs, .meaning = "end of the last use"}, of.last_ns...);
}

void visit_fields(auto& visit, Of<AccessCounts> auto&... of) {
  visit(Field{.name = "count", .unit = Unit::kCount, .meaning = "accesses"}, of.count...);
  visit(Field{.name = "transitions", .unit = Unit::kCount, .meaning = "accesses that follow another one after the same open"}, of.transitions...);
  visit(Field{.name = "consecutive", .unit = Unit::kCount, .meaning = "accesses that begin exactly where the last one of this process to the file ended"}, of.consecutive...);
  visit(Field{.name = "sequential", .unit = Unit::kCount, .meaning = "accesses that begin there or further on"}, of.sequential...);
  visit(Field{.name = "unaligned_offset", .unit = Unit::kCount, .meaning = "accesses whose offset is not a multiple of 4096"}, of.unaligned_offset...);
  visit(Field{.name = "unaligned_size", .unit = Unit::kCount, .meaning = "accesses whose size is not a multiple of 4096"}, of.unaligned_size...);
  visit(Field{.name = "small", .unit = Unit::kCount, .meaning = "accesses of less than 64 KiB"}, of.small...);
  visit(Field{.name = "at_end", .unit = Unit::kCount, .meaning = "reads that returned nothing"}, of.at_end...);
  visit(Field{.name = "lines", .unit = Unit::kCount, .meaning = "calls that read a line or a character: fgets, getline, fgetc, fscanf"}, of.lines...);
}

void visit_fields(auto& visit, Of<FileStats> auto&... of) {
  visit(Field{.name = "path", .unit = Unit::kText, .meaning = "path of the file"}, of.path...);
  visit(Field{.name = "kind", .unit = Unit::kText, .meaning = "data, checkpoint, output, system or other"}, of.kind...);
  visit(Field{.name = "io", .unit = Unit::kNone, .inlined = true, .meaning = "the I/O on it"}, of.io...);
  visit(Field{.name = "read", .unit = Unit::kNone, .meaning = "how it was read"}, of.read...);
  visit(Field{.name = "write", .unit = Unit::kNone, .meaning = "how it was written"}, of.write...);
  visit(Field{.name = "size_bytes", .unit = Unit::kBytes, .meaning = "largest size seen: from stat, or the end of an access"}, of.size_bytes...);
  visit(Field{.name = "size_known", .unit = Unit::kNone, .meaning = "the size is from stat, a seek to the end, or a read that reached the end"}, of.size_known...);
  visit(Field{.name = "unique_bytes_read", .unit = Unit::kBytes, .meaning = "distinct bytes that were read; an estimate above 4 MiB"}, of.unique_bytes_read...);
  visit(Field{.name = "shared_bytes_read", .unit = Unit::kBytes, .meaning = "part of unique_bytes_read that several ranks read"}, of.shared_bytes_read...);
  visit(Field{.name = "ranks", .unit = Unit::kCount, .meaning = "ranks that read or wrote it"}, of.ranks...);
  visit(Field{.name = "readers", .unit = Unit::kCount, .meaning = "ranks that read it"}, of.readers...);
  visit(Field{.name = "reader_ranks", .unit = Unit::kText, .meaning = "ranks that read it: \"0-3,7\"; empty above 64 ranks, or without ranks"}, of.reader_ranks...);
  visit(Field{.name = "epochs", .unit = Unit::kCount, .meaning = "epochs in which it was read"}, of.epochs...);
  visit(Field{.name = "direct_opens", .unit = Unit::kCount, .meaning = "opens with O_DIRECT"}, of.direct_opens...);
  visit(Field{.name = "unaligned_direct", .unit = Unit::kCount, .meaning = "transfers after such opens that were not aligned to 512 bytes"}, of.unaligned_direct...);
}

void visit_fields(auto& visit, Of<GroupStats> auto&... of) {
  visit(Field{.name = "name", .unit = Unit::kText, .meaning = "name of the group"}, of.name...);
  visit(Field{.name = "io", .unit = Unit::kNone, .inlined = true, .meaning = "the I/O on its files"}, of.io...);
  visit(Field{.name = "files", .unit = Unit::kCount, .meaning = "files of the group"}, of.files...);
  visit(Field{.name = "size_bytes", .unit = Unit::kBytes, .meaning = "total size of the files"}, of.size_bytes...);
  visit(Field{.name = "content", .unit = Unit::kText, .meaning = "of an extension: what the first bytes of one of its files are, if it is still there: \"text\", \"numpy\", \"image\", \"hdf5\", \"gzip\", \"zip\", \"zip stored\", \"zstd\", \"xz\", \"bzip2\", \"lz4\"; else empty"}, of.content...);
}

void visit_fields(auto& visit, Of<CommonValue> auto&... of) {
  visit(Field{.name = "value", .unit = Unit::kBytes, .meaning = "the value"}, of.value...);
  visit(Field{.name = "count", .unit = Unit::kCount, .meaning = "how often it occurs"}, of.count...);
}

void visit_fields(auto& visit, Of<AccessPattern> auto&... of) {
  visit(Field{.name = "counts", .unit = Unit::kNone, .meaning = "sums over the files"}, of.counts...);
  visit(Field{.name = "sizes", .unit = Unit::kCount, .meaning = "accesses by size"}, of.sizes...);
  visit(Field{.name = "common_sizes", .unit = Unit::kNone, .meaning = "at most four, most frequent first"}, of.common_sizes...);
  visit(Field{.name = "common_strides", .unit = Unit::kNone, .meaning = "at most four; between accesses to one file that are not consecutive"}, of.common_strides...);
}

void visit_fields(auto& visit, Of<DataUse> auto&... of) {
  visit(Field{.name = "files_read", .unit = Unit::kCount, .meaning = "data files that were read"}, of.files_read...);
  visit(Field{.name = "files_whole", .unit = Unit::kCount, .meaning = "files of which every byte was read"}, of.files_whole...);
  visit(Field{.name = "files_opened_unread", .unit = Unit::kCount, .meaning = "files that were opened but never read"}, of.files_opened_unread...);
  visit(Field{.name = "files_small", .unit = Unit::kCount, .meaning = "files under 1 MiB"}, of.files_small...);
  visit(Field{.name = "files_one_rank", .unit = Unit::kCount, .meaning = "files that one rank read"}, of.files_one_rank...);
  visit(Field{.name = "files_shared", .unit = Unit::kCount, .meaning = "files that several ranks read"}, of.files_shared...);
  visit(Field{.name = "files_every_epoch", .unit = Unit::kCount, .meaning = "files that were read in each of several epochs"}, of.files_every_epoch...);
  visit(Field{.name = "files_once", .unit = Unit::kCount, .meaning = "files that were opened at most once in the job"}, of.files_once...);
  visit(Field{.name = "shared_bytes", .unit = Unit::kBytes, .meaning = "distinct bytes that several ranks read"}, of.shared_bytes...);
  visit(Field{.name = "order", .unit = Unit::kText, .meaning = "\"sequential\" (by name and offset), \"fixed\" (not by name, but the same in every epoch), \"files shuffled\" (samples within a file keep their order), \"shuffled\", \"unknown\""}, of.order...);
  visit(Field{.name = "order_repeated", .unit = Unit::kShare, .meaning = "(rank, epoch) pairs with the same order as the epoch before"}, of.order_repeated...);
  visit(Field{.name = "ascending", .unit = Unit::kShare, .meaning = "changes between files that went up by name"}, of.ascending...);
  visit(Field{.name = "ascending_within", .unit = Unit::kShare, .meaning = "jumps within a file that went up by offset"}, of.ascending_within...);
  visit(Field{.name = "samples_indexed", .unit = Unit::kCount, .meaning = "samples whose index in the dataset is known; order then follows from the indices"}, of.samples_indexed...);
  visit(Field{.name = "index_end", .unit = Unit::kCount, .meaning = "largest known index, plus 1"}, of.index_end...);
  visit(Field{.name = "streams", .unit = Unit::kCount, .meaning = "threads times epochs that read samples of an iterable dataset, which have no index"}, of.streams...);
  visit(Field{.name = "stream_first_bytes", .unit = Unit::kBytes, .meaning = "mean of what these read for their first sample: with a shuffle buffer, the bytes that fill it"}, of.stream_first_bytes...);
  visit(Field{.name = "stream_first_ns", .unit = Unit::kNs, .meaning = "mean time for that"}, of.stream_first_ns...);
  visit(Field{.name = "index_ascending", .unit = Unit::kShare, .meaning = "steps from one sample to the next of the same thread whose index goes up"}, of.index_ascending...);
}

void visit_fields(auto& visit, Of<Timeline> auto&... of) {
  visit(Field{.name = "bin_ns", .unit = Unit::kNs, .meaning = "length of a bin"}, of.bin_ns...);
  visit(Field{.name = "bytes_read", .unit = Unit::kBytes, .meaning = "bytes that were read"}, of.bytes_read...);
  visit(Field{.name = "bytes_written", .unit = Unit::kBytes, .meaning = "bytes that were written"}, of.bytes_written...);
  visit(Field{.name = "operations", .unit = Unit::kCount, .meaning = "calls"}, of.operations...);
  visit(Field{.name = "metadata", .unit = Unit::kCount, .meaning = "calls that move no bytes"}, of.metadata...);
  visit(Field{.name = "busy_ns", .unit = Unit::kNs, .meaning = "time in I/O calls of all threads; divided by bin_ns: calls in flight"}, of.busy_ns...);
}

void visit_fields(auto& visit, Of<RankActivity> auto&... of) {
  visit(Field{.name = "name", .unit = Unit::kText, .meaning = "as in time.ranks"}, of.name...);
  visit(Field{.name = "io", .unit = Unit::kNone, .meaning = "in I/O calls"}, of.io...);
  visit(Field{.name = "compute", .unit = Unit::kNone, .meaning = "in compute regions"}, of.compute...);
  visit(Field{.name = "wait", .unit = Unit::kNone, .meaning = "waiting for data"}, of.wait...);
}

void visit_fields(auto& visit, Of<HeatMap> auto&... of) {
  visit(Field{.name = "bin_ns", .unit = Unit::kNs, .meaning = "length of a bin"}, of.bin_ns...);
  visit(Field{.name = "ranks", .unit = Unit::kNone, .meaning = "evenly spaced if there are more than a page can show"}, of.ranks...);
}

void visit_fields(auto& visit, Of<Stretch> auto&... of) {
  visit(Field{.name = "role", .unit = Unit::kText, .meaning = "epoch, checkpoint, evaluate or restore"}, of.role...);
  visit(Field{.name = "name", .unit = Unit::kText, .meaning = "name of the region"}, of.name...);
  visit(Field{.name = "epoch", .unit = Unit::kNone, .meaning = "number of the epoch; -1: none"}, of.epoch...);
  visit(Field{.name = "rank", .unit = Unit::kNone, .meaning = "index in time.ranks"}, of.rank...);
  visit(Field{.name = "begin_ns", .unit = Unit::kNs, .meaning = "begin, relative to the begin of the job"}, of.begin_ns...);
  visit(Field{.name = "end_ns", .unit = Unit::kNs, .meaning = "end"}, of.end_ns...);
}

void visit_fields(auto& visit, Of<EpochAction> auto&... of) {
  visit(Field{.name = "name", .unit = Unit::kText, .meaning = "name of the regions"}, of.name...);
  visit(Field{.name = "role", .unit = Unit::kText, .meaning = "role of the regions"}, of.role...);
  visit(Field{.name = "count", .unit = Unit::kCount, .meaning = "regions"}, of.count...);
  visit(Field{.name = "mean_ns", .unit = Unit::kNs, .meaning = "mean time"}, of.mean_ns...);
  visit(Field{.name = "min_ns", .unit = Unit::kNs, .meaning = "least time"}, of.min_ns...);
  visit(Field{.name = "max_ns", .unit = Unit::kNs, .meaning = "most time"}, of.max_ns...);
}

void visit_fields(auto& visit, Of<EpochStats> auto&... of) {
  visit(Field{.name = "epoch", .unit = Unit::kNone, .meaning = "as the program numbered it"}, of.epoch...);
  visit(Field{.name = "begin_ns", .unit = Unit::kNs, .meaning = "begin, relative to the begin of the job"}, of.begin_ns...);
  visit(Field{.name = "end_ns", .unit = Unit::kNs, .meaning = "end"}, of.end_ns...);
  visit(Field{.name = "steps", .unit = Unit::kCount, .meaning = "steps of the rank with the most"}, of.steps...);
  visit(Field{.name = "time", .unit = Unit::kNone, .inlined = true, .meaning = "mean over the ranks"}, of.time...);
  visit(Field{.name = "io", .unit = Unit::kNone, .inlined = true, .meaning = "the I/O in it"}, of.io...);
  visit(Field{.name = "files", .unit = Unit::kCount, .meaning = "data files that were read"}, of.files...);
  visit(Field{.name = "actions", .unit = Unit::kNone, .meaning = "by name of region"}, of.actions...);
}

void visit_fields(auto& visit, Of<StepStats> auto&... of) {
  visit(Field{.name = "epoch", .unit = Unit::kNone, .meaning = "number of the epoch; -1: none"}, of.epoch...);
  visit(Field{.name = "step", .unit = Unit::kNone, .meaning = "number of the step; -1: none"}, of.step...);
  visit(Field{.name = "rank", .unit = Unit::kNone, .meaning = "index in time.ranks"}, of.rank...);
  visit(Field{.name = "begin_ns", .unit = Unit::kNs, .meaning = "begin, relative to the begin of the job"}, of.begin_ns...);
  visit(Field{.name = "duration_ns", .unit = Unit::kNs, .meaning = "from waiting for a batch to the end of its compute"}, of.duration_ns...);
  visit(Field{.name = "wait_ns", .unit = Unit::kNs, .meaning = "part of it that waited for data"}, of.wait_ns...);
}

void visit_fields(auto& visit, Of<Steps> auto&... of) {
  visit(Field{.name = "duration_ns", .unit = Unit::kNs, .meaning = "durations"}, of.duration_ns...);
  visit(Field{.name = "wait_ns", .unit = Unit::kNs, .meaning = "waiting per step"}, of.wait_ns...);
  visit(Field{.name = "compute_ns", .unit = Unit::kNs, .meaning = "the rest of each step"}, of.compute_ns...);
  visit(Field{.name = "slowest", .unit = Unit::kNone, .meaning = "the longest steps"}, of.slowest...);
  visit(Field{.name = "all", .unit = Unit::kNone, .meaning = "all steps; only with --by step"}, of.all...);
}

void visit_fields(auto& visit, Of<TreeNode> auto&... of) {
  visit(Field{.name = "name", .unit = Unit::kText, .meaning = "name of the call or region"}, of.name...);
  visit(Field{.name = "layer", .unit = Unit::kText, .meaning = "where in the stack the call was made"}, of.layer...);
  visit(Field{.name = "parent", .unit = Unit::kNone, .meaning = "index of an earlier node; the root is its own parent"}, of.parent...);
  visit(Field{.name = "count", .unit = Unit::kCount, .meaning = "calls"}, of.count...);
  visit(Field{.name = "total_ns", .unit = Unit::kNs, .meaning = "time in the call"}, of.total_ns...);
  visit(Field{.name = "self_ns", .unit = Unit::kNs, .meaning = "the same without what it called"}, of.self_ns...);
  visit(Field{.name = "bytes", .unit = Unit::kBytes, .meaning = "bytes moved"}, of.bytes...);
}

void visit_fields(auto& visit, Of<Checkpoint> auto&... of) {
  visit(Field{.name = "epoch", .unit = Unit::kNone, .meaning = "number of the epoch; -1: none"}, of.epoch...);
  visit(Field{.name = "begin_ns", .unit = Unit::kNs, .meaning = "begin, relative to the begin of the job"}, of.begin_ns...);
  visit(Field{.name = "end_ns", .unit = Unit::kNs, .meaning = "end"}, of.end_ns...);
  visit(Field{.name = "ranks_writing", .unit = Unit::kCount, .meaning = "ranks that wrote"}, of.ranks_writing...);
  visit(Field{.name = "bytes", .unit = Unit::kBytes, .meaning = "bytes that were written"}, of.bytes...);
  visit(Field{.name = "writes", .unit = Unit::kCount, .meaning = "calls that wrote"}, of.writes...);
  visit(Field{.name = "stalled_ns", .unit = Unit::kNs, .meaning = "time in which no rank computed"}, of.stalled_ns...);
  visit(Field{.name = "file", .unit = Unit::kText, .meaning = "one of its files"}, of.file...);
}

void visit_fields(auto& visit, Of<RankLoad> auto&... of) {
  visit(Field{.name = "name", .unit = Unit::kText, .meaning = "as in time.ranks"}, of.name...);
  visit(Field{.name = "host", .unit = Unit::kText, .meaning = "its host"}, of.host...);
  visit(Field{.name = "io", .unit = Unit::kNone, .inlined = true, .meaning = "its I/O"}, of.io...);
  visit(Field{.name = "data_files", .unit = Unit::kCount, .meaning = "data files that it read"}, of.data_files...);
  visit(Field{.name = "data_bytes_read", .unit = Unit::kBytes, .meaning = "bytes that it read from data files"}, of.data_bytes_read...);
  visit(Field{.name = "threads_reading", .unit = Unit::kCount, .meaning = "threads that read"}, of.threads_reading...);
  visit(Field{.name = "calls_in_flight", .unit = Unit::kNone, .meaning = "mean number of I/O calls in flight, while there was any"}, of.calls_in_flight...);
  visit(Field{.name = "samples", .unit = Unit::kCount, .meaning = "samples that it read, as far as regions show"}, of.samples...);
  visit(Field{.name = "steps", .unit = Unit::kCount, .meaning = "its steps"}, of.steps...);
  visit(Field{.name = "wait_ns", .unit = Unit::kNs, .meaning = "waiting for data"}, of.wait_ns...);
  visit(Field{.name = "compute_ns", .unit = Unit::kNs, .meaning = "in compute regions"}, of.compute_ns...);
  visit(Field{.name = "end_ns", .unit = Unit::kNs, .meaning = "end of its last step, relative to the begin of the job; 0: no steps"}, of.end_ns...);
}

void visit_fields(auto& visit, Of<Stall> auto&... of) {
  visit(Field{.name = "phase", .unit = Unit::kText, .meaning = "\"before training\" (before the first step of the rank), \"in training\" or \"after training\""}, of.phase...);
  visit(Field{.name = "region", .unit = Unit::kText, .meaning = "outermost region without a role around the calls; empty: none"}, of.region...);
  visit(Field{.name = "name", .unit = Unit::kText, .meaning = "name of the call; empty: time that no call explains"}, of.name...);
  visit(Field{.name = "count", .unit = Unit::kCount, .meaning = "calls"}, of.count...);
  visit(Field{.name = "time_ns", .unit = Unit::kNs, .meaning = "time in the calls"}, of.time_ns...);
  visit(Field{.name = "stall_ns", .unit = Unit::kNs, .meaning = "time of gaps that belongs to the calls"}, of.stall_ns...);
  visit(Field{.name = "gaps", .unit = Unit::kCount, .meaning = "gaps with such calls"}, of.gaps...);
  visit(Field{.name = "directory", .unit = Unit::kText, .meaning = "directory of the files named in most of the calls"}, of.directory...);
  visit(Field{.name = "files", .unit = Unit::kCount, .meaning = "distinct files"}, of.files...);
}

void visit_fields(auto& visit, Of<Loading> auto&... of) {
  visit(Field{.name = "threads", .unit = Unit::kCount, .meaning = "threads of one rank that load, besides the one that trains; most of any rank; 0: the training thread loads by itself"}, of.threads...);
  visit(Field{.name = "batches", .unit = Unit::kCount, .meaning = "fetches of a batch"}, of.batches...);
  visit(Field{.name = "samples", .unit = Unit::kCount, .meaning = "samples that were read"}, of.samples...);
  visit(Field{.name = "work_ns", .unit = Unit::kNs, .meaning = "in the outermost regions that fetch or read samples"}, of.work_ns...);
  visit(Field{.name = "read_ns", .unit = Unit::kNs, .meaning = "part of work_ns: calls that read, of the system or stdio"}, of.read_ns...);
  visit(Field{.name = "metadata_ns", .unit = Unit::kNs, .meaning = "part of work_ns: opens, closes, seeks, stats and listings"}, of.metadata_ns...);
  visit(Field{.name = "library_ns", .unit = Unit::kNs, .meaning = "part of work_ns: calls of format libraries such as HDF5, without the calls they make"}, of.library_ns...);
  visit(Field{.name = "transform_ns", .unit = Unit::kNs, .meaning = "part of work_ns: regions that transform, without the calls in them"}, of.transform_ns...);
  visit(Field{.name = "collate_ns", .unit = Unit::kNs, .meaning = "part of work_ns: regions that collate, without the calls in them"}, of.collate_ns...);
  visit(Field{.name = "other_ns", .unit = Unit::kNs, .meaning = "part of work_ns: none of these, for example Python code of the dataset"}, of.other_ns...);
  visit(Field{.name = "decode_ns", .unit = Unit::kNs, .meaning = "part of other_ns: regions that decode images or sound"}, of.decode_ns...);
  visit(Field{.name = "decompress_ns", .unit = Unit::kNs, .meaning = "part of other_ns: regions that decompress"}, of.decompress_ns...);
  visit(Field{.name = "parse_ns", .unit = Unit::kNs, .meaning = "part of other_ns: regions that parse text"}, of.parse_ns...);
  visit(Field{.name = "opens", .unit = Unit::kCount, .meaning = "calls in work_ns that opened a file"}, of.opens...);
  visit(Field{.name = "stats", .unit = Unit::kCount, .meaning = "calls such as stat in work_ns, and opens of files that do not exist"}, of.stats...);
  visit(Field{.name = "missing", .unit = Unit::kCount, .meaning = "part of stats: the file does not exist"}, of.missing...);
  visit(Field{.name = "lists", .unit = Unit::kCount, .meaning = "calls that list a directory in work_ns"}, of.lists...);
  visit(Field{.name = "reads", .unit = Unit::kCount, .meaning = "calls in work_ns that read, of the system or stdio"}, of.reads...);
  visit(Field{.name = "library_reads", .unit = Unit::kCount, .meaning = "reads by format libraries in work_ns, for example H5Dread"}, of.library_reads...);
  visit(Field{.name = "library_bytes", .unit = Unit::kBytes, .meaning = "bytes that these returned"}, of.library_bytes...);
  visit(Field{.name = "fetch_mean_ns", .unit = Unit::kNs, .meaning = "mean duration of a fetch"}, of.fetch_mean_ns...);
  visit(Field{.name = "in_flight", .unit = Unit::kNone, .meaning = "mean number of fetches in progress, while there was any"}, of.in_flight...);
  visit(Field{.name = "epoch_starts", .unit = Unit::kCount, .meaning = "passes of the ranks over loaders, evaluations included; without regions of setup, (rank, epoch) pairs"}, of.epoch_starts...);
  visit(Field{.name = "epoch_starts_ns", .unit = Unit::kNs, .meaning = "setup and first wait of these"}, of.epoch_starts_ns...);
  visit(Field{.name = "epoch_starts_first_ns", .unit = Unit::kNs, .meaning = "the same of the first one of each rank"}, of.epoch_starts_first_ns...);
}

void visit_fields(auto& visit, Of<Profile> auto&... of) {
  visit(Field{.name = "job", .unit = Unit::kNone, .meaning = "the job as a whole"}, of.job...);
  visit(Field{.name = "time", .unit = Unit::kNone, .meaning = "how the time was spent"}, of.time...);
  visit(Field{.name = "layers", .unit = Unit::kNone, .meaning = "layers with events, top to bottom"}, of.layers...);
  visit(Field{.name = "functions", .unit = Unit::kNone, .meaning = "by call or region, longest time first"}, of.functions...);
  visit(Field{.name = "reads", .unit = Unit::kNone, .meaning = "all reads"}, of.reads...);
  visit(Field{.name = "writes", .unit = Unit::kNone, .meaning = "all writes"}, of.writes...);
  visit(Field{.name = "data_reads", .unit = Unit::kNone, .meaning = "reads of data files only: what training reads"}, of.data_reads...);
  visit(Field{.name = "data", .unit = Unit::kNone, .meaning = "how the data files were used"}, of.data...);
  visit(Field{.name = "files", .unit = Unit::kNone, .meaning = "a selection: the files with the most time, bytes and opens"}, of.files...);
  visit(Field{.name = "directories", .unit = Unit::kNone, .meaning = "files by directory; a selection"}, of.directories...);
  visit(Field{.name = "extensions", .unit = Unit::kNone, .meaning = "data files and outputs by extension (\".jpg\"); a selection"}, of.extensions...);
  visit(Field{.name = "kinds", .unit = Unit::kNone, .meaning = "files by kind"}, of.kinds...);
  visit(Field{.name = "hosts", .unit = Unit::kNone, .meaning = "calls and files by host"}, of.hosts...);
  visit(Field{.name = "ranks", .unit = Unit::kNone, .meaning = "load by rank"}, of.ranks...);
  visit(Field{.name = "loading", .unit = Unit::kNone, .meaning = "how samples became batches"}, of.loading...);
  visit(Field{.name = "stalls", .unit = Unit::kNone, .meaning = "time of the training thread outside all regions with a role; longest first"}, of.stalls...);
  visit(Field{.name = "timeline", .unit = Unit::kNone, .meaning = "activity over the job"}, of.timeline...);
  visit(Field{.name = "heat", .unit = Unit::kNone, .meaning = "what each rank did over time"}, of.heat...);
  visit(Field{.name = "stretches", .unit = Unit::kNone, .meaning = "intervals to draw: epochs, checkpoints, evaluations and restores"}, of.stretches...);
  visit(Field{.name = "epochs", .unit = Unit::kNone, .meaning = "by epoch"}, of.epochs...);
  visit(Field{.name = "steps", .unit = Unit::kNone, .meaning = "durations of steps"}, of.steps...);
  visit(Field{.name = "tree", .unit = Unit::kNone, .meaning = "calls within calls; the first node is the root"}, of.tree...);
  visit(Field{.name = "checkpoints", .unit = Unit::kNone, .meaning = "by checkpoint"}, of.checkpoints...);
  visit(Field{.name = "problems", .unit = Unit::kText, .meaning = "what could not be read, as sentences"}, of.problems...);
}

}  // namespace millrace::analyze
