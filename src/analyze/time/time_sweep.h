// TimeSweep: measures the unions of a plan for every rank, every host and the job, and for each
// epoch and step, in one pass over all spans.
//
// Time is divided into slices with about the same number of spans. Slices are independent, so all
// CPUs are used whether the job had one rank or thousands. The spans of a slice are sorted by
// begin. Each union then only needs to know how far it is covered. All sums are integers, so
// neither the slices nor the order in which spans were added changes a bit of the result.
//
// Rejected: a tree of pairwise unions for each rank. It costs log2(lists) per span, and again for
// hosts and the job. docs/design/time-split.md has the measurements.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analyze/context.h"
#include "analyze/time/time_classes.h"
#include "analyze/time/time_runs.h"
#include "base/result.h"

namespace millrace::analyze {

// A tag in the runs combines a group and a class.
inline constexpr uint32_t kTimeClassBits = 5;
inline constexpr uint32_t kTimeClassMask = (1U << kTimeClassBits) - 1;
static_assert(kTimeClassCount <= size_t{1} << kTimeClassBits);

constexpr uint32_t time_tag(GroupIndex group, TimeClass of) {
  return static_cast<uint32_t>(group) << kTimeClassBits | static_cast<uint32_t>(of);
}

struct SweptEpoch {
  int64_t epoch = 0;
  uint64_t begin_ns = 0;  // of the first rank
  uint64_t end_ns = 0;    // of the last rank
  uint64_t wall_ns = 0;   // summed over the ranks
  uint32_t ranks = 0;
  std::vector<uint64_t> lengths;  // by slot, summed over the ranks
};

struct SweptTime {
  std::vector<std::vector<uint64_t>> groups;        // by slot
  std::vector<std::vector<uint64_t>> hosts;         // by slot, below wide_slot_count
  std::vector<uint64_t> job;                        // by slot, below wide_slot_count
  std::vector<SweptEpoch> epochs;                   // sorted by number
  std::vector<std::vector<uint64_t>> step_wait_ns;  // by group, parallel to EpochIndex::steps()
};

// The classes that a plan must cover.
TimeSet swept_classes(const Context& context, const TimeRuns& runs);

// Fails if memory runs out.
Result<SweptTime> sweep_time(const Context& context, const TimeRuns& runs, const TimePlan& plan,
                             size_t threads);

}  // namespace millrace::analyze
