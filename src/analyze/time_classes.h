// TimeClass and TimePlan: what time is told apart by, and which unions of it a split needs.
//
// Every figure of a TimeSplit follows from lengths of unions alone: |a and b| is |a| + |b| - |a or
// b|, |a without b| is |a or b| - |b|. A plan is the list of unions for the classes that a trace
// has; unions that come out as the same set of classes are measured once. A job of plain reads
// thereby needs one or two, one with every kind of region some twenty.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "analyze/vocabulary.h"

namespace millrace::analyze {

// A span of time is of exactly one class. The first four are Layer's I/O layers, the next four the
// same in a rank's main process.
enum class TimeClass : uint8_t {
  kFormat = 0,
  kMpiio,
  kStdio,
  kPosix,
  kMainFormat,
  kMainMpiio,
  kMainStdio,
  kMainPosix,
  kCompute,  // and evaluating
  kFetch,
  kFetchWaiting,  // on the thread that computes, which waits for it
  kDecode,
  kDecodeWaiting,
  kWait,
  kLoader,  // other regions of that layer
  kLoaderWaiting,
  kCheckpoint,
  kCommunicate,
  kStepRegion,
  kApplication,  // other regions of that layer
  kStep,         // not stored: the spans of EpochIndex
};
inline constexpr size_t kTimeClassCount = 21;

using TimeSet = uint32_t;  // bit n: TimeClass n

constexpr TimeSet set_of(TimeClass of) { return TimeSet{1} << static_cast<unsigned>(of); }

// REQUIRES: a layer of calls.
constexpr TimeClass class_of_io(Layer layer, bool of_main_process) {
  const auto place = static_cast<unsigned>(layer) - static_cast<unsigned>(Layer::kFormat);
  return static_cast<TimeClass>(place + (of_main_process ? 4 : 0));
}
TimeClass class_of_region(Role role, bool waiting);

// A union to measure.
enum class Measure : uint8_t {
  kIo = 0,
  kCompute,
  kFetch,
  kDecode,
  kCheckpoint,
  kCommunicate,
  kAny,  // all of these and waiting
  kIoOrCompute,
  kBringOrCompute,  // fetch, decode or compute
  kStep,
  // Waiting is a set less another one: regions less nothing, or I/O less compute.
  kWaitOrNot,
  kNotWait,
  kWaitOrNotOrStep,
  kNotWaitOrStep,
  kLayer,                                  // one each layer
  kLayerOrCompute = kLayer + kLayerCount,  // likewise
};
inline constexpr size_t kMeasureCount = static_cast<size_t>(Measure::kLayerOrCompute) + kLayerCount;

constexpr Measure of_layer(Measure first, Layer layer) {
  return static_cast<Measure>(static_cast<uint8_t>(first) + static_cast<uint8_t>(layer));
}

struct TimePlan {
  static constexpr uint8_t kNothing = 0xff;  // the union is empty

  // `present`: the classes there are.
  TimePlan(TimeSet present, WaitBasis basis);

  std::vector<TimeSet> slots;  // the different unions
  size_t wide_slot_count = 0;  // the first so many are all that nodes and the job need
  std::array<uint8_t, kMeasureCount> slot_of{};
  std::array<std::vector<uint8_t>, kTimeClassCount> slots_with;       // by class
  std::array<std::vector<uint8_t>, kTimeClassCount> wide_slots_with;  // likewise
};

// What splits of time are by, where these classes are there.
WaitBasis basis_of(TimeSet present);

// Lengths of a plan's unions, by slot.
class Lengths {
 public:
  Lengths(const TimePlan& plan, const uint64_t* of_slot) : plan_(plan), of_slot_(of_slot) {}

  uint64_t operator[](Measure measure) const {
    const uint8_t slot = plan_.slot_of[static_cast<size_t>(measure)];
    return slot == TimePlan::kNothing ? 0 : of_slot_[slot];
  }
  uint64_t wait() const { return (*this)[Measure::kWaitOrNot] - (*this)[Measure::kNotWait]; }
  uint64_t wait_in_steps() const {
    return wait() - ((*this)[Measure::kWaitOrNotOrStep] - (*this)[Measure::kNotWaitOrStep]);
  }

 private:
  const TimePlan& plan_;
  const uint64_t* of_slot_;
};

}  // namespace millrace::analyze
