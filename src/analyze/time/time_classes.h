// TimeClass and TimePlan: the classes of time, and the unions of them that a split needs.
//
// All numbers of a TimeSplit follow from lengths of unions: |a and b| is |a| + |b| - |a or b|, |a
// without b| is |a or b| - |b|. A plan lists the unions for the classes that occur in a trace.
// Unions that consist of the same classes are measured once. A job of plain reads therefore needs
// one or two unions, a job with every kind of region about twenty.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "analyze/vocabulary.h"

namespace millrace::analyze {

// Every span of time has exactly one class. The first four are the I/O layers of Layer, the next
// four are the same layers in the main process of a rank.
enum class TimeClass : uint8_t {
  kFormat = 0,
  kMpiio,
  kStdio,
  kPosix,
  kMainFormat,
  kMainMpiio,
  kMainStdio,
  kMainPosix,
  kCompute,  // and evaluation
  kFetch,
  kFetchWaiting,  // on the thread that computes, which waits for it
  kDecode,        // and decompressing, parsing
  kDecodeWaiting,
  kTransform,  // and collating
  kTransformWaiting,
  kWait,
  kLoader,  // other regions of the loader layer
  kLoaderWaiting,
  kCheckpoint,
  kCommunicate,
  kStepRegion,
  kApplication,  // other regions of the application layer
  kDevice,       // the accelerator computes
  kLaunch,       // compute regions of the host where the accelerator's time is known
  kCopy,         // copies to or from the accelerator, of the host or the device
  kStep,         // not stored: taken from EpochIndex
  kTraining,     // not stored: taken from EpochIndex
};
inline constexpr size_t kTimeClassCount = 27;

using TimeSet = uint32_t;  // bit n: TimeClass n

constexpr TimeSet set_of(TimeClass of) { return TimeSet{1} << static_cast<unsigned>(of); }

// REQUIRES: `layer` is a layer of calls.
constexpr TimeClass class_of_io(Layer layer, bool of_main_process) {
  const auto place = static_cast<unsigned>(layer) - static_cast<unsigned>(Layer::kFormat);
  return static_cast<TimeClass>(place + (of_main_process ? 4 : 0));
}
TimeClass class_of_region(Role role, bool waiting);

// A union whose length is measured.
enum class Measure : uint8_t {
  kIo = 0,
  kCompute,
  kFetch,
  kDecode,
  kTransform,
  kCheckpoint,
  kCommunicate,
  kLaunch,
  kCopy,
  kAny,  // any of the above, or waiting
  kIoOrCompute,
  kBringOrCompute,  // fetch, decode, transform or compute
  kStep,
  kTraining,
  // Waiting is the difference of two sets: regions minus the accelerator's time, or I/O minus
  // compute.
  kHostWait,  // waiting regions, whatever the accelerator did
  kWaitOrNot,
  kNotWait,
  kWaitOrNotOrStep,
  kNotWaitOrStep,
  kWaitOrNotOrTraining,
  kNotWaitOrTraining,
  kLayer,                                  // one per layer
  kLayerOrCompute = kLayer + kLayerCount,  // one per layer
};
inline constexpr size_t kMeasureCount = static_cast<size_t>(Measure::kLayerOrCompute) + kLayerCount;

constexpr Measure of_layer(Measure first, Layer layer) {
  return static_cast<Measure>(static_cast<uint8_t>(first) + static_cast<uint8_t>(layer));
}

struct TimePlan {
  static constexpr uint8_t kNothing = 0xff;  // the union is empty

  // `present`: the classes that occur in the trace.
  TimePlan(TimeSet present, WaitBasis basis);

  std::vector<TimeSet> slots;  // the distinct unions
  size_t wide_slot_count = 0;  // hosts and the job only need the first so many
  std::array<uint8_t, kMeasureCount> slot_of{};
  std::array<std::vector<uint8_t>, kTimeClassCount> slots_with;       // by class
  std::array<std::vector<uint8_t>, kTimeClassCount> wide_slots_with;  // by class
};

// What waiting is computed from if these classes are present.
WaitBasis basis_of(TimeSet present);

// The lengths of the unions of a plan, by slot.
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
  uint64_t wait_in_training() const {
    return wait() - ((*this)[Measure::kWaitOrNotOrTraining] - (*this)[Measure::kNotWaitOrTraining]);
  }

 private:
  const TimePlan& plan_;
  const uint64_t* of_slot_;
};

}  // namespace millrace::analyze
