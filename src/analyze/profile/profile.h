// Profile: what a job did, in numbers. Reports and rules are based on it.
//
// A plain value. Times are in nanoseconds. Points in time ("begin_ns" of an epoch) are on the
// common clock of the trace and relative to Job::begin_ns; the rest are durations. Lists are cut to
// what people and pages can use (Limits in scan.h). The totals beside them cover everything. The
// JSON (docs/formats/report.md) has the same names and the same nesting.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyze/vocabulary.h"
#include "base/log_histogram.h"

namespace millrace::analyze {

// The rank of a quantile is within 1 % of the exact one. The other values are exact.
struct Distribution {
  uint64_t count = 0;
  uint64_t sum = 0;
  uint64_t min = 0;
  uint64_t p25 = 0;
  double mean = 0;
  uint64_t median = 0;
  uint64_t p75 = 0;
  uint64_t p95 = 0;
  uint64_t p99 = 0;
  uint64_t max = 0;
};

struct Job {
  std::vector<std::string> traces;  // as the user gave them
  std::string command;              // of the main process of the first rank
  std::string framework;            // "pytorch", "tensorflow", "jax"; empty: none was found
  std::vector<std::string> hosts;
  uint32_t ranks = 0;         // groups of processes that train as one rank; at least 1
  uint32_t failed_ranks = 0;  // ranks whose main process exited with a code other than 0
  int64_t exit_code = 0;      // of the first failed rank
  uint64_t processes = 0;
  uint64_t threads = 0;
  uint64_t compute_threads = 0;  // threads with compute regions
  uint64_t io_threads = 0;       // threads that read or wrote bytes
  int64_t begin_wall_ns = 0;     // since 1970-01-01 UTC
  uint64_t begin_ns = 0;         // on the clock of the trace; other times are relative to it
  uint64_t wall_ns = 0;
  uint64_t events = 0;
  uint64_t lost_events = 0;
  uint64_t files = 0;  // all files used, of any kind
  uint64_t dataset_files = 0;
  uint64_t dataset_bytes = 0;  // total size of the data files, as far as the trace shows
  uint64_t dataset_bytes_read = 0;
  uint64_t dataset_unique_bytes = 0;  // without repeated reads of the same bytes
  uint64_t bytes_read = 0;            // by system calls and stdio, from all kinds of files
  uint64_t bytes_written = 0;
  double amplification = 0;  // dataset bytes read per epoch / dataset_bytes; 0: unknown
  uint64_t epochs = 0;       // marked epochs; 0: none
  uint64_t steps = 0;
  bool direct_io = false;  // a file was opened with O_DIRECT
  bool mapped_io = false;  // files were mapped: their reads are not recorded one by one
  bool uring_io = false;
};

// How the time of one rank, one host or the job was spent. Every number is the length of a union of
// intervals: two threads that read at the same time count once.
struct TimeSplit {
  std::string name;  // "rank 3", "node7", "job"
  uint64_t wall_ns = 0;
  uint64_t compute_ns = 0;
  uint64_t io_ns = 0;          // in I/O calls of any library or the system
  uint64_t fetch_ns = 0;       // regions of the application: fetch, read
  uint64_t decode_ns = 0;      // decode, transform, collate
  uint64_t checkpoint_ns = 0;  // checkpoint and restore
  uint64_t communicate_ns = 0;
  uint64_t wait_ns = 0;              // training waited for data; measured according to WaitBasis
  uint64_t io_hidden_ns = 0;         // io overlapped with compute
  uint64_t io_unhidden_ns = 0;       // io without compute
  uint64_t fetch_unhidden_ns = 0;    // fetch or decode without compute
  uint64_t compute_unhidden_ns = 0;  // compute without io
  uint64_t idle_ns = 0;              // none of the above
  uint64_t step_ns = 0;              // in steps: from waiting for a batch to the end of its compute
  double wait_share = 0;             // wait / step, or wait / wall if no steps are known
};

struct SplitOfTime {
  WaitBasis basis = WaitBasis::kNone;
  TimeSplit job;   // all ranks together
  TimeSplit mean;  // mean over the ranks: what one rank experiences
  std::vector<TimeSplit> nodes;
  std::vector<TimeSplit> ranks;
};

struct FunctionStats {
  std::string name;  // of the call or region
  Layer layer{};
  wire::CallKind kind{};
  Role role{};  // of regions
  uint64_t count = 0;
  uint64_t errors = 0;
  uint64_t time_ns = 0;  // sum of durations
  uint64_t bytes = 0;
  Distribution size_bytes;  // bytes moved per call, for calls that move bytes
  Distribution latency_ns;
  LogHistogram size_bins;
  LogHistogram latency_bins;
};

struct LayerStats {
  Layer layer{};
  uint64_t count = 0;
  uint64_t time_ns = 0;    // sum of durations
  uint64_t busy_ns = 0;    // union, summed over the ranks
  uint64_t hidden_ns = 0;  // part of busy_ns that overlapped with compute of the same rank
  uint64_t bytes_read = 0;
  uint64_t bytes_written = 0;
  uint64_t metadata_count = 0;
  uint64_t metadata_ns = 0;
};

// The I/O on one or several files.
struct IoTotals {
  uint64_t opens = 0;
  uint64_t reads = 0;
  uint64_t writes = 0;
  uint64_t seeks = 0;
  uint64_t syncs = 0;
  uint64_t metadata = 0;  // stat and similar calls, without opens, closes, seeks and syncs
  uint64_t maps = 0;
  uint64_t errors = 0;
  uint64_t bytes_read = 0;
  uint64_t bytes_written = 0;
  uint64_t read_ns = 0;
  uint64_t write_ns = 0;
  uint64_t metadata_ns = 0;          // in opens, closes, seeks and metadata calls
  uint64_t first_ns = ~uint64_t{0};  // begin of the first use, relative to the begin of the job
  uint64_t last_ns = 0;              // end of the last use

  void merge(const IoTotals& other);
};

// How files were accessed in one direction. Consecutive: exactly where the last access of this
// process to the file ended. Sequential: there or further on.
struct AccessCounts {
  uint64_t count = 0;
  uint64_t transitions = 0;  // accesses that follow another one after the same open
  uint64_t consecutive = 0;
  uint64_t sequential = 0;
  uint64_t unaligned_offset = 0;  // not a multiple of 4096
  uint64_t unaligned_size = 0;
  uint64_t small = 0;   // under 64 KiB
  uint64_t at_end = 0;  // reads that returned nothing
  uint64_t lines = 0;   // calls that read a line or a character: fgets, getline, fgetc, fscanf

  void merge(const AccessCounts& other);
};

struct FileStats {
  std::string path;
  FileKind kind{};
  IoTotals io;
  AccessCounts read;
  AccessCounts write;
  uint64_t size_bytes = 0;  // the largest size seen: from stat, or the end of an access
  bool size_known = false;  // from stat, lseek to the end, or a read that reached the end
  uint64_t unique_bytes_read = 0;
  uint64_t shared_bytes_read = 0;  // part of unique_bytes_read that several ranks read
  uint32_t ranks = 0;              // ranks that read or wrote it
  uint32_t readers = 0;            // ranks that read it
  std::string reader_ranks;        // the ranks that read it: "0-3,7"; empty above 64 ranks, or
                                   // without ranks
  uint32_t epochs = 0;             // epochs in which it was read
  uint64_t direct_opens = 0;       // with O_DIRECT
  uint64_t unaligned_direct = 0;   // transfers after such opens that were not aligned to 512 bytes
};

// Files of one directory, extension, rank, host, epoch or process.
struct GroupStats {
  std::string name;
  IoTotals io;
  uint64_t files = 0;
  uint64_t size_bytes = 0;  // total size of the files
};

struct CommonValue {
  uint64_t value = 0;
  uint64_t count = 0;
};

struct AccessPattern {
  AccessCounts counts;
  LogHistogram sizes;
  std::vector<CommonValue> common_sizes;    // at most four, most frequent first
  std::vector<CommonValue> common_strides;  // between accesses to one file that are not consecutive
};

// How the data files were used.
struct DataUse {
  uint64_t files_read = 0;
  uint64_t files_whole = 0;  // every byte was read
  uint64_t files_opened_unread = 0;
  uint64_t files_small = 0;        // under 1 MiB
  uint64_t files_one_rank = 0;     // read by one rank only
  uint64_t files_shared = 0;       // read by several ranks
  uint64_t files_every_epoch = 0;  // read in each of several epochs
  uint64_t files_once = 0;         // opened once in the job
  uint64_t shared_bytes = 0;       // distinct bytes that several ranks read
  ReadOrder order{};
  double order_repeated = 0;    // share of (rank, epoch) with the same order as the epoch before
  double ascending = 0;         // share of changes between files that went up by name
  double ascending_within = 0;  // share of jumps within a file that went up by offset
};

// Equal bins over the time of the job.
struct Timeline {
  uint64_t bin_ns = 0;
  std::vector<uint64_t> bytes_read;
  std::vector<uint64_t> bytes_written;
  std::vector<uint64_t> operations;
  std::vector<uint64_t> metadata;  // operations that move no bytes
  std::vector<uint64_t> busy_ns;   // time in I/O calls of all threads; divided by bin_ns: calls in
                                   // flight
};

// What one rank did in each bin of the heat map, in thousandths of the bin.
struct RankActivity {
  std::string name;  // as in SplitOfTime::ranks
  std::vector<uint16_t> io;
  std::vector<uint16_t> compute;
  std::vector<uint16_t> wait;
};

struct HeatMap {
  uint64_t bin_ns = 0;
  std::vector<RankActivity> ranks;  // evenly spaced if there are more than a page can show
};

// Intervals to draw below the timelines.
struct Stretch {
  Role role{};  // kEpoch, kCheckpoint, kEvaluate, kRestore
  std::string name;
  int64_t epoch = -1;
  uint32_t rank = 0;  // index into SplitOfTime::ranks
  uint64_t begin_ns = 0;
  uint64_t end_ns = 0;
};

// One action of one epoch: the time in regions with this name, as mean, minimum and maximum over
// the ranks.
struct EpochAction {
  std::string name;
  Role role{};
  uint64_t count = 0;
  uint64_t mean_ns = 0;
  uint64_t min_ns = 0;
  uint64_t max_ns = 0;
};

struct EpochStats {
  int64_t epoch = 0;
  uint64_t begin_ns = 0;
  uint64_t end_ns = 0;
  uint64_t steps = 0;
  TimeSplit time;  // mean over the ranks
  IoTotals io;
  uint64_t files = 0;  // data files that were read
  std::vector<EpochAction> actions;
};

struct StepStats {
  int64_t epoch = -1;
  int64_t step = -1;
  uint32_t rank = 0;
  uint64_t begin_ns = 0;
  uint64_t duration_ns = 0;
  uint64_t wait_ns = 0;
};

struct Steps {
  Distribution duration_ns;
  Distribution wait_ns;
  std::vector<StepStats> slowest;
  std::vector<StepStats> all;  // only on request (--by step)
};

// Calls within calls. A node is what was called there; the root is empty.
struct TreeNode {
  std::string name;
  Layer layer{};
  uint32_t parent = 0;  // index; the root is its own parent
  uint64_t count = 0;
  uint64_t total_ns = 0;
  uint64_t self_ns = 0;
  uint64_t bytes = 0;
};

// A checkpoint, found from its regions and the writes to its files.
struct Checkpoint {
  int64_t epoch = -1;
  uint64_t begin_ns = 0;
  uint64_t end_ns = 0;
  uint32_t ranks_writing = 0;
  uint64_t bytes = 0;
  uint64_t writes = 0;
  uint64_t stalled_ns = 0;  // time in which no rank computed
  std::string file;
};

// The I/O of one rank, to compare ranks.
struct RankLoad {
  std::string name;  // as in SplitOfTime::ranks
  std::string host;
  IoTotals io;
  uint64_t data_files = 0;
  uint64_t data_bytes_read = 0;
  uint64_t threads_reading = 0;
  double reads_in_flight = 0;  // mean number of I/O calls in flight, while any was
};

struct Profile {
  Job job;
  SplitOfTime time;
  std::vector<LayerStats> layers;        // layers with events, top to bottom
  std::vector<FunctionStats> functions;  // sorted by time, longest first
  AccessPattern reads;
  AccessPattern writes;
  AccessPattern data_reads;  // only of data files: what training reads
  DataUse data;
  std::vector<FileStats> files;  // a selection: the most time, bytes and opens
  std::vector<GroupStats> directories;
  std::vector<GroupStats> extensions;  // of data files and outputs; ".jpg"
  std::vector<GroupStats> kinds;       // by FileKind
  std::vector<GroupStats> hosts;
  std::vector<RankLoad> ranks;
  Timeline timeline;
  HeatMap heat;
  std::vector<Stretch> stretches;
  std::vector<EpochStats> epochs;
  Steps steps;
  std::vector<TreeNode> tree;  // tree[0] is the root
  std::vector<Checkpoint> checkpoints;
  std::vector<std::string> problems;  // what could not be read, as sentences
};

}  // namespace millrace::analyze
