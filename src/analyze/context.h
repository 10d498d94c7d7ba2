// Context: what is known of a trace before its events are scanned, and does not change meanwhile.
//
// Made in a first pass that decodes only blocks with regions: groups of processes (a rank and its
// workers), what each region's name means, when epochs and steps were. Threads may share it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analyze/call_traits.h"
#include "analyze/epochs.h"
#include "analyze/roles.h"
#include "analyze/vocabulary.h"
#include "base/result.h"
#include "trace/trace.h"

namespace millrace::analyze {

// What the user may say about the trace.
struct Options {
  std::vector<RoleRule> roles;  // before the known names
  size_t threads = 0;           // 0: as many as CPUs
  // Only a part of the trace: which blocks to read at all, and which of their rows to leave in. The
  // job then goes from the window's begin to its end, on the trace's clock.
  std::function<bool(const trace::BlockInfo& block)> wants_block;
  std::function<void(trace::EventColumns& columns)> keep_wanted;
  std::optional<Interval> window;
};

// One rank with its workers; or, where no rank is known, a process with all its descendants.
enum class GroupIndex : uint32_t {};

struct Group {
  std::string name;  // "rank 3"; without ranks "process 1234 (python train.py)", or "job" if alone
  int32_t rank = -1;
  bool trains = true;  // false: the processes around the ranks of a job with ranks, as mpirun's
  uint32_t host = 0;   // index into Context::hosts
  uint64_t begin_ns = 0;
  uint64_t end_ns = 0;
  trace::ProcessIndex main{};  // the process that trains: the one with compute, else the oldest
};

// A region that began before the events that stand before it in its block: children of it may be
// in earlier blocks.
struct LongRegion {
  trace::ThreadIndex thread{};
  trace::NameIndex name{};
  uint64_t begin_ns = 0;
  uint64_t end_ns = 0;
};

// A region in which a rank saved its state.
struct CheckpointRegion {
  GroupIndex group{};
  StepSpan span;  // epoch and step -1 where it carries none
};

struct Context {
  Context(const trace::Trace& of, std::vector<RoleRule> rules);

  const trace::Trace& trace;
  Options options;        // which part of the trace is wanted
  uint64_t begin_ns = 0;  // of the first event
  uint64_t end_ns = 0;    // of the last
  std::vector<std::string> hosts;
  std::vector<Group> groups;
  std::vector<GroupIndex> group_of;   // by process
  std::vector<bool> system_file;      // by name: is_system_path()
  std::vector<bool> thread_computes;  // by thread: has regions of computing
  bool has_wait_regions = false;      // some region has the role kWait
  bool bytes_below_posix = true;      // HDF5's and MPI-IO's bytes are seen again in POSIX calls
  EpochIndex epochs;
  std::vector<LongRegion> long_regions;       // by thread, then begin, the outer first
  std::vector<CheckpointRegion> checkpoints;  // by begin

  GroupIndex group(trace::ProcessIndex process) const {
    return group_of[static_cast<size_t>(process)];
  }
  // Of a region's name.
  Role role(trace::NameIndex name) const {
    const uint8_t known = role_of_[static_cast<size_t>(name)].load(std::memory_order_relaxed);
    return known != kUnknownRole ? static_cast<Role>(known) : find_role(name);
  }

 private:
  static constexpr uint8_t kUnknownRole = 0xff;
  Role find_role(trace::NameIndex name) const;

  std::vector<RoleRule> role_rules_;
  // By name, worked out when first asked for: most names are those of files.
  mutable std::vector<std::atomic<uint8_t>> role_of_;
};

// Whether an event is a call that does I/O: not a region, not process control, not an estimate.
inline bool is_io(wire::Call call) { return traits_of(call).io; }

// Whether the bytes of a call of this layer count for the job: not those of a library whose own
// reads are seen again below it.
inline bool counts_bytes(const Context& context, Layer layer) {
  return layer == Layer::kPosix || layer == Layer::kStdio ||
         (!context.bytes_below_posix && (layer == Layer::kFormat || layer == Layer::kMpiio));
}

// A block as Options have it: its events, less those that are not wanted. False: none are.
Result<bool> read_wanted(const trace::Trace& trace, const Options& options, size_t index,
                         trace::EventColumns& columns);

inline bool wants(const Options& options, const trace::BlockInfo& block) {
  return !options.wants_block || options.wants_block(block);
}

// Whether time of such a region counts as waiting for data.
bool is_waiting(const Context& context, Role role, trace::ThreadIndex thread);

// Blocks of regions that cannot be read are sentences in `problems`.
Context make_context(const trace::Trace& trace, const Options& options,
                     std::vector<std::string>& problems);

}  // namespace millrace::analyze
