#include "analyze/time/time_classes.h"

#include <algorithm>

namespace millrace::analyze {
namespace {

constexpr TimeSet kFetchSet = set_of(TimeClass::kFetch) | set_of(TimeClass::kFetchWaiting);
constexpr TimeSet kDecodeSet = set_of(TimeClass::kDecode) | set_of(TimeClass::kDecodeWaiting);
constexpr TimeSet kTransformSet =
    set_of(TimeClass::kTransform) | set_of(TimeClass::kTransformWaiting);
constexpr TimeSet kWaitSet = set_of(TimeClass::kWait) | set_of(TimeClass::kFetchWaiting) |
                             set_of(TimeClass::kDecodeWaiting) |
                             set_of(TimeClass::kTransformWaiting) |
                             set_of(TimeClass::kLoaderWaiting);
constexpr TimeSet kMainIoSet = 0xf0;
constexpr TimeSet kIoSet = 0xff;
constexpr TimeSet kDeviceSet = set_of(TimeClass::kDevice);
constexpr TimeSet kComputeSet = set_of(TimeClass::kCompute) | kDeviceSet;
constexpr TimeSet kLaunchSet = set_of(TimeClass::kLaunch);
constexpr TimeSet kCopySet = set_of(TimeClass::kCopy);
constexpr TimeSet kStepSet = set_of(TimeClass::kStep) | set_of(TimeClass::kStepRegion);
constexpr TimeSet kTrainingSet = set_of(TimeClass::kTraining);
constexpr TimeSet kCheckpointSet = set_of(TimeClass::kCheckpoint);
constexpr TimeSet kCommunicateSet = set_of(TimeClass::kCommunicate);

constexpr TimeSet layer_set(Layer layer) {
  switch (layer) {
    case Layer::kApplication:
      return kComputeSet | kLaunchSet | kCheckpointSet | kCommunicateSet |
             set_of(TimeClass::kStepRegion) | set_of(TimeClass::kApplication);
    case Layer::kLoader:
      return kFetchSet | kDecodeSet | kTransformSet | kWaitSet | kCopySet |
             set_of(TimeClass::kLoader);
    default:
      return TimeSet{0x11} << (static_cast<unsigned>(layer) -
                               static_cast<unsigned>(Layer::kFormat));
  }
}
static_assert(layer_set(Layer::kPosix) ==
              (set_of(TimeClass::kPosix) | set_of(TimeClass::kMainPosix)));

}  // namespace

TimeClass class_of_region(Role role, bool waiting) {
  switch (role) {
    case Role::kCompute:
    case Role::kEvaluate:
      return TimeClass::kCompute;
    case Role::kFetch:
    case Role::kRead:
      return waiting ? TimeClass::kFetchWaiting : TimeClass::kFetch;
    case Role::kDecode:
    case Role::kDecompress:
    case Role::kParse:
      return waiting ? TimeClass::kDecodeWaiting : TimeClass::kDecode;
    case Role::kTransform:
    case Role::kCollate:
      return waiting ? TimeClass::kTransformWaiting : TimeClass::kTransform;
    case Role::kWait:
      return TimeClass::kWait;
    case Role::kCopy:
    case Role::kDeviceCopy:
      return TimeClass::kCopy;
    case Role::kDevice:
      return TimeClass::kDevice;
    case Role::kShuffle:
      return waiting ? TimeClass::kLoaderWaiting : TimeClass::kLoader;
    case Role::kCheckpoint:
    case Role::kRestore:
      return TimeClass::kCheckpoint;
    case Role::kCommunicate:
      return TimeClass::kCommunicate;
    case Role::kStep:
      return TimeClass::kStepRegion;
    case Role::kNone:
    case Role::kSetup:
    case Role::kEpoch:
      break;
  }
  return TimeClass::kApplication;
}

WaitBasis basis_of(TimeSet present) {
  if ((present & kWaitSet) != 0) return WaitBasis::kRegions;
  return (present & kMainIoSet) != 0 ? WaitBasis::kIoTime : WaitBasis::kNone;
}

TimePlan::TimePlan(TimeSet present, WaitBasis basis) {
  const TimeSet wait = basis == WaitBasis::kRegions  ? kWaitSet
                       : basis == WaitBasis::kIoTime ? kMainIoSet
                                                     : 0;
  const TimeSet not_wait = basis == WaitBasis::kIoTime    ? kComputeSet
                           : basis == WaitBasis::kRegions ? kDeviceSet
                                                          : 0;
  const TimeSet loading = kFetchSet | kDecodeSet | kTransformSet;
  std::array<TimeSet, kMeasureCount> sets{};
  const auto measure = [&sets](Measure of, TimeSet set) { sets[static_cast<size_t>(of)] = set; };
  measure(Measure::kIo, kIoSet);
  measure(Measure::kCompute, kComputeSet);
  measure(Measure::kFetch, kFetchSet);
  measure(Measure::kDecode, kDecodeSet);
  measure(Measure::kTransform, kTransformSet);
  measure(Measure::kCheckpoint, kCheckpointSet);
  measure(Measure::kCommunicate, kCommunicateSet);
  measure(Measure::kLaunch, kLaunchSet);
  measure(Measure::kCopy, kCopySet);
  measure(Measure::kHostWait, basis == WaitBasis::kRegions ? kWaitSet : 0);
  measure(Measure::kAny, kIoSet | kComputeSet | kLaunchSet | kCopySet | loading | kCheckpointSet |
                             kCommunicateSet | wait);
  measure(Measure::kIoOrCompute, kIoSet | kComputeSet);
  measure(Measure::kBringOrCompute, loading | kComputeSet);
  measure(Measure::kStep, kStepSet);
  measure(Measure::kTraining, kTrainingSet);
  measure(Measure::kWaitOrNot, wait | not_wait);
  measure(Measure::kNotWait, not_wait);
  measure(Measure::kWaitOrNotOrStep, wait | not_wait | kStepSet);
  measure(Measure::kNotWaitOrStep, not_wait | kStepSet);
  measure(Measure::kWaitOrNotOrTraining, wait | not_wait | kTrainingSet);
  measure(Measure::kNotWaitOrTraining, not_wait | kTrainingSet);
  for (size_t i = 0; i < kLayerCount; ++i) {
    const auto layer = static_cast<Layer>(i);
    measure(of_layer(Measure::kLayer, layer), layer_set(layer));
    measure(of_layer(Measure::kLayerOrCompute, layer), layer_set(layer) | kComputeSet);
  }
  slot_of.fill(kNothing);
  for (size_t i = 0; i < kMeasureCount; ++i) {
    const TimeSet set = sets[i] & present;
    if (set == 0) continue;
    const auto found = std::find(slots.begin(), slots.end(), set);
    slot_of[i] = static_cast<uint8_t>(found - slots.begin());
    if (found == slots.end()) slots.push_back(set);
    if (i < static_cast<size_t>(Measure::kLayer)) wide_slot_count = slots.size();
  }
  for (size_t i = 0; i < kTimeClassCount; ++i) {
    for (size_t slot = 0; slot < slots.size(); ++slot) {
      if ((slots[slot] >> i & 1) == 0) continue;
      slots_with[i].push_back(static_cast<uint8_t>(slot));
      if (slot < wide_slot_count) wide_slots_with[i].push_back(static_cast<uint8_t>(slot));
    }
  }
}

}  // namespace millrace::analyze
