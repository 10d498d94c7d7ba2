// Profile: what a job did, in numbers: all that a report shows and a rule judges by.
//
// A plain value. Times are nanoseconds on the trace's common clock, counted from Job::begin_ns
// where they are moments ("begin_ns" of an epoch), durations otherwise. Lists are cut to what
// people and pages can use (Limits of scan.h); the totals beside them are of everything. The JSON
// (docs/formats/report.md) has the same names and the same nesting.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyze/vocabulary.h"
#include "base/log_histogram.h"

namespace millrace::analyze {

// Quantiles are within 1 % of the exact ones in rank; the rest is exact.
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
  std::string command;              // of the first process
  std::string framework;            // "pytorch", "tensorflow", "jax"; empty: none was seen
  std::vector<std::string> hosts;
  uint32_t ranks = 0;         // groups of processes that train together as one; at least 1
  uint32_t failed_ranks = 0;  // whose main process ended with another exit code than 0
  int64_t exit_code = 0;      // of the first of those
  uint64_t processes = 0;
  uint64_t threads = 0;
  uint64_t compute_threads = 0;  // that had a region of computing
  uint64_t io_threads = 0;       // that read or wrote bytes
  int64_t begin_wall_ns = 0;     // since 1970-01-01 UTC
  uint64_t begin_ns = 0;         // on the trace's clock: what moments count from
  uint64_t wall_ns = 0;
  uint64_t events = 0;
  uint64_t lost_events = 0;
  uint64_t files = 0;  // touched, of any kind
  uint64_t dataset_files = 0;
  uint64_t dataset_bytes = 0;  // sizes of the data files, as far as the trace tells
  uint64_t dataset_bytes_read = 0;
  uint64_t dataset_unique_bytes = 0;  // of those, different ones
  uint64_t bytes_read = 0;            // by calls to the system and stdio, of all kinds of files
  uint64_t bytes_written = 0;
  double amplification = 0;  // dataset bytes read in an epoch over dataset_bytes; 0: unknown
  uint64_t epochs = 0;       // that were marked; 0: none
  uint64_t steps = 0;
  bool direct_io = false;  // some file was opened with O_DIRECT
  bool mapped_io = false;  // files were mapped: their reads are not itemised
  bool uring_io = false;
};

// How the time of one rank, one node or the job was spent. Every figure is the length of a union of
// intervals: two threads that read at the same time count once.
struct TimeSplit {
  std::string name;  // "rank 3", "node7", "job"
  uint64_t wall_ns = 0;
  uint64_t compute_ns = 0;
  uint64_t io_ns = 0;          // calls of any library or the system that do I/O
  uint64_t fetch_ns = 0;       // the application's fetching: fetch, read
  uint64_t decode_ns = 0;      // decode, transform, collate
  uint64_t checkpoint_ns = 0;  // checkpoint and restore
  uint64_t communicate_ns = 0;
  uint64_t wait_ns = 0;              // training stood still for data; by WaitBasis
  uint64_t io_hidden_ns = 0;         // io and compute at once
  uint64_t io_unhidden_ns = 0;       // io without compute
  uint64_t fetch_unhidden_ns = 0;    // fetch or decode without compute
  uint64_t compute_unhidden_ns = 0;  // compute without io
  uint64_t idle_ns = 0;              // none of all these
  uint64_t step_ns = 0;   // of steps: from waiting for a batch to the end of its computing
  double wait_share = 0;  // wait over step, or over wall where no steps are known
};

struct SplitOfTime {
  WaitBasis basis = WaitBasis::kNone;
  TimeSplit job;   // of all ranks together
  TimeSplit mean;  // over the ranks: what a rank experiences
  std::vector<TimeSplit> nodes;
  std::vector<TimeSplit> ranks;
};

struct FunctionStats {
  std::string name;  // of the call, or of the region
  Layer layer{};
  wire::CallKind kind{};
  Role role{};  // of regions
  uint64_t count = 0;
  uint64_t errors = 0;
  uint64_t time_ns = 0;  // sum of durations
  uint64_t bytes = 0;
  Distribution size_bytes;  // of calls that move bytes: bytes moved
  Distribution latency_ns;
  LogHistogram size_bins;
  LogHistogram latency_bins;
};

struct LayerStats {
  Layer layer{};
  uint64_t count = 0;
  uint64_t time_ns = 0;    // sum of durations
  uint64_t busy_ns = 0;    // union, over the ranks summed
  uint64_t hidden_ns = 0;  // of busy, while the same rank computed
  uint64_t bytes_read = 0;
  uint64_t bytes_written = 0;
  uint64_t metadata_count = 0;
  uint64_t metadata_ns = 0;
};

// What was done to a file, or to many.
struct IoTotals {
  uint64_t opens = 0;
  uint64_t reads = 0;
  uint64_t writes = 0;
  uint64_t seeks = 0;
  uint64_t syncs = 0;
  uint64_t metadata = 0;  // stat and the like; opens, closes, seeks and syncs are not in it
  uint64_t maps = 0;
  uint64_t errors = 0;
  uint64_t bytes_read = 0;
  uint64_t bytes_written = 0;
  uint64_t read_ns = 0;
  uint64_t write_ns = 0;
  uint64_t metadata_ns = 0;          // opens, closes, seeks, metadata
  uint64_t first_ns = ~uint64_t{0};  // begin of the first use, from the job's begin
  uint64_t last_ns = 0;              // end of the last

  void merge(const IoTotals& other);
};

// How bytes of one direction were accessed. Consecutive: exactly where the last access of this
// process to the file ended; sequential: there or further on.
struct AccessCounts {
  uint64_t count = 0;
  uint64_t transitions = 0;  // accesses that follow another one of the same opening
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
  uint64_t size_bytes = 0;  // the largest that was seen: by stat, or the end of what was accessed
  bool size_known = false;  // by stat, lseek to the end, or a read that met it
  uint64_t unique_bytes_read = 0;
  uint64_t shared_bytes_read = 0;  // of those, read by several ranks
  uint32_t ranks = 0;              // that read or wrote it
  uint32_t readers = 0;            // ranks that read it
  std::string reader_ranks;        // which: "0-3,7"; empty beyond 64 ranks, or without ranks
  uint32_t epochs = 0;             // in which it was read
  uint64_t direct_opens = 0;       // with O_DIRECT
  uint64_t unaligned_direct = 0;   // transfers of such openings that were not aligned to 512 bytes
};

// Files of one directory, extension, rank, host, epoch or process.
struct GroupStats {
  std::string name;
  IoTotals io;
  uint64_t files = 0;
  uint64_t size_bytes = 0;  // of the files
};

struct CommonValue {
  uint64_t value = 0;
  uint64_t count = 0;
};

struct AccessPattern {
  AccessCounts counts;
  LogHistogram sizes;
  std::vector<CommonValue> common_sizes;    // at most four, the most frequent first
  std::vector<CommonValue> common_strides;  // of accesses to one file, where not consecutive
};

// How the data files were used.
struct DataUse {
  uint64_t files_read = 0;
  uint64_t files_whole = 0;  // each byte was read
  uint64_t files_opened_unread = 0;
  uint64_t files_small = 0;        // under 1 MiB
  uint64_t files_one_rank = 0;     // file per process
  uint64_t files_shared = 0;       // read by several ranks
  uint64_t files_every_epoch = 0;  // in each of several epochs
  uint64_t files_once = 0;         // opened once in the job
  uint64_t shared_bytes = 0;       // different bytes that several ranks read
  ReadOrder order{};
  double order_repeated = 0;    // share of (rank, epoch) whose order was that of the epoch before
  double ascending = 0;         // share of steps from file to file that went up by name
  double ascending_within = 0;  // share of steps within a file that went up by offset
};

// Equal bins over the job's time.
struct Timeline {
  uint64_t bin_ns = 0;
  std::vector<uint64_t> bytes_read;
  std::vector<uint64_t> bytes_written;
  std::vector<uint64_t> operations;
  std::vector<uint64_t> metadata;  // operations that move no bytes
  std::vector<uint64_t> busy_ns;   // time in I/O calls of all threads: over bin_ns, calls in flight
};

// What one rank did in each of the heat map's bins, in thousandths of the bin.
struct RankActivity {
  std::string name;  // as in SplitOfTime::ranks
  std::vector<uint16_t> io;
  std::vector<uint16_t> compute;
  std::vector<uint16_t> wait;
};

struct HeatMap {
  uint64_t bin_ns = 0;
  std::vector<RankActivity> ranks;  // where there are more than the page can show, evenly chosen
};

// Stretches to draw under the timelines.
struct Stretch {
  Role role{};  // kEpoch, kCheckpoint, kEvaluate, kRestore
  std::string name;
  int64_t epoch = -1;
  uint32_t rank = 0;  // index in SplitOfTime::ranks
  uint64_t begin_ns = 0;
  uint64_t end_ns = 0;
};

// One action of one epoch: time in regions of that name, as the mean, least and most over the
// ranks.
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
  std::vector<StepStats> all;  // only where asked for (--by step)
};

// Calls within calls: a node is what was called there, the root is empty.
struct TreeNode {
  std::string name;
  Layer layer{};
  uint32_t parent = 0;  // index; the root is its own
  uint64_t count = 0;
  uint64_t total_ns = 0;
  uint64_t self_ns = 0;
  uint64_t bytes = 0;
};

// A checkpoint as seen in regions of that role and writes to its files.
struct Checkpoint {
  int64_t epoch = -1;
  uint64_t begin_ns = 0;
  uint64_t end_ns = 0;
  uint32_t ranks_writing = 0;
  uint64_t bytes = 0;
  uint64_t writes = 0;
  uint64_t stalled_ns = 0;  // in which no rank computed
  std::string file;
};

// What many ranks did, to see who had more.
struct RankLoad {
  std::string name;  // as in SplitOfTime::ranks
  std::string host;
  IoTotals io;
  uint64_t data_files = 0;
  uint64_t data_bytes_read = 0;
  uint64_t threads_reading = 0;
  double reads_in_flight = 0;  // mean while any read was under way
};

struct Profile {
  Job job;
  SplitOfTime time;
  std::vector<LayerStats> layers;        // those with events, from the top
  std::vector<FunctionStats> functions;  // by time, the longest first
  AccessPattern reads;
  AccessPattern writes;
  AccessPattern data_reads;  // of data files alone: what training reads
  DataUse data;
  std::vector<FileStats> files;  // the most of time, bytes and opens: a choice
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
