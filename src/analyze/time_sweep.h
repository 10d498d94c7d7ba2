// TimeSweep: measures the unions of a plan for every rank, node and the job, and for each epoch and
// step, in one pass over all spans.
//
// Time is cut into slices of about as many spans each; slices are independent, so that all CPUs
// work whether the job had one rank or thousands. The spans of a slice are put into the order of
// their begins; each union then needs to know only how far it is covered. All sums are of whole
// numbers: neither the slices nor the order in which spans came change a bit of the result.
//
// Not a tree of unions of two, rank by rank: that takes log2 of the lists for each span, and again
// for nodes and the job. docs/design/time-split.md has the measured costs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analyze/context.h"
#include "analyze/time_classes.h"
#include "analyze/time_runs.h"
#include "base/result.h"

namespace millrace::analyze {

// A tag of the runs: a group and a class.
inline constexpr uint32_t kTimeClassBits = 5;
inline constexpr uint32_t kTimeClassMask = (1U << kTimeClassBits) - 1;
static_assert(kTimeClassCount <= size_t{1} << kTimeClassBits);

constexpr uint32_t time_tag(GroupIndex group, TimeClass of) {
  return static_cast<uint32_t>(group) << kTimeClassBits | static_cast<uint32_t>(of);
}

struct SweptEpoch {
  int64_t epoch = 0;
  uint64_t begin_ns = 0;  // of the first rank
  uint64_t end_ns = 0;    // of the last
  uint64_t wall_ns = 0;   // summed over the ranks
  uint32_t ranks = 0;
  std::vector<uint64_t> lengths;  // by slot, summed over the ranks
};

struct SweptTime {
  std::vector<std::vector<uint64_t>> groups;        // by slot
  std::vector<std::vector<uint64_t>> hosts;         // by slot, up to wide_slot_count
  std::vector<uint64_t> job;                        // likewise
  std::vector<SweptEpoch> epochs;                   // by number
  std::vector<std::vector<uint64_t>> step_wait_ns;  // by group, as EpochIndex::steps()
};

// The classes that a plan is to be made for.
TimeSet swept_classes(const Context& context, const TimeRuns& runs);

// Fails if there is not enough memory.
Result<SweptTime> sweep_time(const Context& context, const TimeRuns& runs, const TimePlan& plan,
                             size_t threads);

}  // namespace millrace::analyze
