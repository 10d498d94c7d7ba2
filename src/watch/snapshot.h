// Snapshot: what a job did in a window of time, and its state. `millrace top` shows it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/system/terminal.h"

namespace millrace::watch {

enum class JobState {
  kWaiting,  // nothing was recorded yet
  kRunning,
  kEnded,
};

// Calls of one kind that ended in the window.
struct Operations {
  uint64_t count = 0;
  uint64_t bytes = 0;
  uint64_t duration_ns = 0;  // sum of whole calls, even the part before the window
  uint64_t duration_max_ns = 0;

  void add(uint64_t moved_bytes, uint64_t took_ns) {
    ++count;
    bytes += moved_bytes;
    duration_ns += took_ns;
    if (took_ns > duration_max_ns) duration_max_ns = took_ns;
  }
  void add(const Operations& other) {
    count += other.count;
    bytes += other.bytes;
    duration_ns += other.duration_ns;
    if (other.duration_max_ns > duration_max_ns) duration_max_ns = other.duration_max_ns;
  }
};

struct OperationKinds {
  Operations reads;
  Operations writes;  // bytes copied from file to file are also in `reads`
  Operations opens;
  Operations metadata;  // names, attributes, directories
  Operations others;    // close, seek, sync, map, ...

  void add(const OperationKinds& other) {
    reads.add(other.reads);
    writes.add(other.writes);
    opens.add(other.opens);
    metadata.add(other.metadata);
    others.add(other.others);
  }
  Operations all() const {
    Operations sum = reads;
    for (const Operations* kind : {&writes, &opens, &metadata, &others}) sum.add(*kind);
    return sum;
  }
};

enum class WaitingBy {
  kNothing,  // no process to measure
  kRegions,  // time in `batch_wait` regions, or in `fetch` regions of a process that trains
  kIo,       // time in which any thread of the main process is in a call
};

// One rank, or one process without a rank.
struct Worker {
  int32_t rank = -1;
  uint32_t pid = 0;  // of its main process
  std::string host;
  std::string command;
  uint32_t processes_running = 0;
  OperationKinds operations;
  uint64_t busy_ns = 0;  // time in calls within the window, summed over all threads
  WaitingBy waiting_by = WaitingBy::kNothing;
  double waiting_share = 0;
  bool has_epoch = false;
  bool has_step = false;
  uint32_t epoch = 0;
  uint64_t step = 0;
};

struct FileUse {
  std::string path;
  uint64_t count = 0;
  uint64_t read_bytes = 0;
  uint64_t written_bytes = 0;
  uint64_t busy_ns = 0;
};

struct Snapshot {
  JobState state = JobState::kWaiting;
  uint64_t window_ns = 0;
  uint64_t elapsed_ns = 0;  // since the first session began
  uint64_t hosts = 0;       // with a process that runs or cannot be checked from here
  uint64_t processes = 0;
  uint64_t ranks = 0;
  int32_t world_size = -1;  // -1: unknown
  OperationKinds window;
  OperationKinds total;    // since the first look
  double concurrency = 0;  // mean number of calls in progress over the window
  WaitingBy waiting_by = WaitingBy::kNothing;
  double waiting_share = 0;     // mean over the workers that have one
  std::vector<FileUse> files;   // the busiest first
  std::vector<Worker> workers;  // the busiest first
  uint64_t workers_more = 0;    // not in the list
  uint64_t lost_events = 0;
  uint64_t lost_processes = 0;
  std::vector<std::string> problems;  // not reported before
};

// Lines of at most `terminal.columns` columns, each with a newline.
std::string snapshot_text(const Snapshot& snapshot, const std::string& directory,
                          const Terminal& terminal);

// docs/formats/top-json.md.
std::string snapshot_json(const Snapshot& snapshot, const std::string& directory);

}  // namespace millrace::watch
