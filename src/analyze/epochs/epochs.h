// EpochIndex: finds the epoch and step of a rank at a given time.
//
// It is built from the epochs and steps that regions carry. Reads of worker processes carry none.
// They are assigned by time, to the epoch that their rank was in. An epoch lasts from the begin of
// its first region to the begin of the next epoch, or to its own end if it is the last. A step ends
// with its last region: a checkpoint between two steps belongs to neither.
//
// Threads that load data run ahead of the one that trains and may have started an epoch that the
// training never reaches. If the training marks epochs (or steps), only those exist. The marks of
// the other threads then only tell for which epoch data was read.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/numbers/interval_set.h"

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

// Which thread marked a region: one that trains, or one that only loads data.
enum class MarkedBy { kTraining, kReading };

class EpochIndex {
 public:
  // Adds a region of `group` that carries an epoch, a step or both (-1: none). In any order.
  void add(uint32_t group, const StepSpan& region, MarkedBy by);

  // Call after the last add() and before the first query.
  void finish();

  // Sorted by time and not overlapping. Empty if the group has none.
  std::span<const EpochSpan> epochs(uint32_t group) const;
  std::span<const StepSpan> steps(uint32_t group) const;
  // The epochs for which data was read. Differs from epochs() if threads run ahead. An epoch that
  // the training never reached has a span with epoch -1.
  std::span<const EpochSpan> reading(uint32_t group) const;

  // -1: none.
  int64_t epoch_at(uint32_t group, uint64_t time_ns) const;
  int64_t reading_at(uint32_t group, uint64_t time_ns) const;
  // Null: none.
  const StepSpan* step_at(uint32_t group, uint64_t time_ns) const;

  bool empty() const { return groups_.empty(); }

 private:
  struct GroupSpans {
    std::vector<EpochSpan> epochs;
    std::vector<StepSpan> steps;
    std::vector<EpochSpan> reading;          // until finish(): only of loading threads
    std::vector<StepSpan> steps_of_reading;  // until finish()
  };
  std::vector<GroupSpans> groups_;
};

// Looks up one time after another. Times near the last one need no search.
class EpochCursor {
 public:
  // `spans` are from an EpochIndex: sorted by time and not overlapping.
  explicit EpochCursor(std::span<const EpochSpan> spans) : spans_(spans) {}

  // -1: none.
  int64_t at(uint64_t time_ns) {
    if (time_ns >= known_.begin_ns && time_ns < known_.end_ns) return known_.epoch;
    return spans_.empty() ? -1 : search(time_ns);
  }

 private:
  int64_t search(uint64_t time_ns);

  std::span<const EpochSpan> spans_;
  EpochSpan known_;  // the last answer, which may be a gap without an epoch
};

}  // namespace millrace::analyze
