// EpochIndex: which epoch and step of a rank a moment belongs to.
//
// Made from the epochs and steps that regions carry. Reads of worker processes carry none: they are
// placed by time, in the epoch their rank was in then. An epoch of a rank goes from the begin of
// its first region to the begin of the next epoch's, or to its own end where none follows. A step
// ends with its last region: a checkpoint between two steps is of neither.
//
// Threads that prepare data are ahead of the one that trains, and may have begun an epoch that
// never comes. Where training marks epochs (or steps) itself, these are what there is; what the
// others mark then only says which epoch was read for.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/interval_set.h"

namespace millrace::analyze {

struct EpochSpan {
  int64_t epoch = -1;
  uint64_t begin_ns = 0;
  uint64_t end_ns = 0;
};

struct StepSpan {
  int64_t epoch = -1;
  int64_t step = -1;
  uint64_t begin_ns = 0;
  uint64_t end_ns = 0;
};

// Who marked a region: a thread that trains, or one that only prepares data.
enum class MarkedBy { kTraining, kReading };

class EpochIndex {
 public:
  // A region of `group` that carries an epoch, a step or both (-1: not). Any order.
  void add(uint32_t group, const StepSpan& region, MarkedBy by);

  // After the last add() and before the first question.
  void finish();

  // In the order of time, not overlapping; empty for groups without.
  std::span<const EpochSpan> epochs(uint32_t group) const;
  std::span<const StepSpan> steps(uint32_t group) const;
  // By when they were read for: as epochs() but for threads that are ahead. An epoch that never
  // came has a span of epoch -1.
  std::span<const EpochSpan> reading(uint32_t group) const;

  // -1: none.
  int64_t epoch_at(uint32_t group, uint64_t time_ns) const;
  int64_t reading_at(uint32_t group, uint64_t time_ns) const;
  // Null: none.
  const StepSpan* step_at(uint32_t group, uint64_t time_ns) const;

  bool empty() const { return groups_.empty(); }

 private:
  struct OfGroup {
    std::vector<EpochSpan> epochs;
    std::vector<StepSpan> steps;
    std::vector<EpochSpan> reading;          // until finish(): of reading threads alone
    std::vector<StepSpan> steps_of_reading;  // until finish()
  };
  std::vector<OfGroup> groups_;
};

// Asks for one moment after another: those near the last one are answered without a search.
class EpochCursor {
 public:
  // Of EpochIndex: in the order of time, not overlapping.
  explicit EpochCursor(std::span<const EpochSpan> spans) : spans_(spans) {}

  // -1: none.
  int64_t at(uint64_t time_ns) {
    if (time_ns >= known_.begin_ns && time_ns < known_.end_ns) return known_.epoch;
    return spans_.empty() ? -1 : search(time_ns);
  }

 private:
  int64_t search(uint64_t time_ns);

  std::span<const EpochSpan> spans_;
  EpochSpan known_;  // also of stretches without an epoch
};

}  // namespace millrace::analyze
