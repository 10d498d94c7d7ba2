// Context: what is known about a trace before its events are scanned. It does not change during the
// scan.
//
// A first pass builds it and decodes only blocks with regions. It finds the groups of processes (a
// rank and its workers), the role of each region name, and when epochs and steps ran. Threads may
// share it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analyze/call_traits.h"
#include "analyze/epochs/epochs.h"
#include "analyze/roles.h"
#include "analyze/vocabulary.h"
#include "base/result.h"
#include "trace/trace.h"

namespace millrace::analyze {

// Settings of the user for a scan.
struct Options {
  std::vector<RoleRule> roles;  // checked before the built-in names
  size_t threads = 0;           // 0: one per CPU
  // To analyze a part of the trace: `wants_block` selects the blocks to read, `keep_wanted` removes
  // unwanted rows from a block. The job then lasts from the begin to the end of `window`, on the
  // clock of the trace.
  std::function<bool(const trace::BlockInfo& block)> wants_block;
  std::function<void(trace::EventColumns& columns)> keep_wanted;
  std::optional<Interval> window;
};

// One rank with its workers. If no rank is known, a process with all its descendants.
enum class GroupIndex : uint32_t {};

struct Group {
  std::string name;  // "rank 3"; without ranks "process 1234 (python train.py)", or "job" if it is
                     // the only group
  int32_t rank = -1;
  bool trains = true;  // false: processes outside the ranks, for example mpirun
  uint32_t host = 0;   // index into Context::hosts
  uint64_t begin_ns = 0;
  uint64_t end_ns = 0;
  trace::ProcessIndex main{};  // the process that trains: the one that computes, else the oldest
  // The thread of `main` that trains: the first one that computes, else the first that waits for
  // data or saves.
  std::optional<trace::ThreadIndex> thread;
  // When the accelerator's own time is known: from its first to its last event, for each process
  // that recorded any. Sorted, without overlaps.
  std::vector<Interval> device;
  // From the begin of the first step to the end of the last; without steps, of regions of waiting,
  // fetching and compute.
  // Empty: neither is known.
  Interval training;
};

// A region that began before the first event of its thread in its block. Its children may be in
// earlier blocks.
struct LongRegion {
  trace::ThreadIndex thread{};
  trace::NameIndex name{};
  uint64_t begin_ns = 0;
  uint64_t end_ns = 0;
};

// A region in which a rank saved its state, with the calls right after it that complete its files:
// flush, fsync, close and rename. Or such calls alone, if a new file is named like a checkpoint.
struct CheckpointRegion {
  GroupIndex group{};
  StepSpan span;  // epoch and step are -1 if the region has none
};

struct Context {
  Context(const trace::Trace& of, std::vector<RoleRule> rules);

  const trace::Trace& trace;
  Options options;        // which part of the trace is wanted
  uint64_t begin_ns = 0;  // of the first event of the trace
  uint64_t end_ns = 0;    // of the last event of the trace
  std::vector<std::string> hosts;
  std::vector<Group> groups;
  std::vector<GroupIndex> group_of;   // indexed by process
  std::vector<uint32_t> parent_of;    // indexed by process: the one that started it, or itself
  std::vector<bool> system_file;      // indexed by name: is_system_path()
  std::vector<bool> thread_computes;  // indexed by thread: has compute regions
  bool has_wait_regions = false;      // some region has the role kWait
  bool bytes_below_posix = true;      // bytes of HDF5 and MPI-IO calls appear again in POSIX calls
  EpochIndex epochs;
  std::vector<LongRegion> long_regions;       // sorted by thread, then begin; outer regions first
  std::vector<CheckpointRegion> checkpoints;  // sorted by begin

  GroupIndex group(trace::ProcessIndex process) const {
    return group_of[static_cast<size_t>(process)];
  }
  // Whether a region with this role and begin is compute of the group. Where the accelerator's time
  // is known, that is compute, and the regions of the host only launch it.
  bool is_compute(GroupIndex group, Role role, uint64_t at_ns) const {
    if (role == Role::kDevice) return true;
    return (role == Role::kCompute || role == Role::kEvaluate) && !knows_device(group, at_ns);
  }
  bool knows_device(GroupIndex group, uint64_t time_ns) const {
    for (const Interval& known : groups[static_cast<size_t>(group)].device) {
      if (time_ns >= known.begin_ns && time_ns < known.end_ns) return true;
    }
    return false;
  }
  // The role of a region with this name.
  Role role(trace::NameIndex name) const {
    const uint8_t known = role_of_[static_cast<size_t>(name)].load(std::memory_order_relaxed);
    return known != kUnknownRole ? static_cast<Role>(known) : find_role(name);
  }

 private:
  static constexpr uint8_t kUnknownRole = 0xff;
  Role find_role(trace::NameIndex name) const;

  std::vector<RoleRule> role_rules_;
  // Indexed by name and computed on first use, because most names are file names.
  mutable std::vector<std::atomic<uint8_t>> role_of_;
};

// Whether an event is a call that does I/O, and not a region, process control or an estimate.
inline bool is_io(wire::Call call) { return traits_of(call).io; }

// Whether the bytes of calls in this layer count for the job. They do not if the reads of a library
// are recorded again in the layer below.
inline bool counts_bytes(const Context& context, Layer layer) {
  return layer == Layer::kPosix || layer == Layer::kStdio ||
         (!context.bytes_below_posix && (layer == Layer::kFormat || layer == Layer::kMpiio));
}

// Reads a block and removes the events that Options exclude. False: no event is left.
Result<bool> read_wanted(const trace::Trace& trace, const Options& options, size_t index,
                         trace::EventColumns& columns);

inline bool wants(const Options& options, const trace::BlockInfo& block) {
  return !options.wants_block || options.wants_block(block);
}

// Whether the time in such a region counts as waiting for data.
bool is_waiting(const Context& context, Role role, trace::ThreadIndex thread);

// Adds a sentence to `problems` if the pass over the regions failed. Unreadable blocks are reported
// by the scan.
Context make_context(const trace::Trace& trace, const Options& options,
                     std::vector<std::string>& problems);

}  // namespace millrace::analyze
