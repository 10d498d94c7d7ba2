#include "bench/checkpoint/schedule.h"

#include <algorithm>

namespace millrace::bench {
namespace {

constexpr double kPauseSecondsMax = 1e9;  // 31 years; beyond, nanoseconds would overflow

uint64_t count_or_zero(int64_t count) { return count > 0 ? static_cast<uint64_t>(count) : 0; }

std::chrono::nanoseconds pause_of(double seconds) {
  const double bounded = std::clamp(seconds, 0.0, kPauseSecondsMax);
  return std::chrono::nanoseconds(static_cast<int64_t>(bounded * 1e9));
}

}  // namespace

CheckpointSchedule::CheckpointSchedule(const CheckpointConfig& config)
    : first_epoch_(std::max<uint64_t>(config.checkpoint_after_epoch, 1)),
      epochs_between_(std::max<uint64_t>(config.epochs_between_checkpoints, 1)),
      steps_between_(config.steps_between_checkpoints),
      pause_(pause_of(config.time_between_checkpoints_s)),
      is_limited_(config.num_checkpoints_write >= 0),
      write_count_(count_or_zero(config.num_checkpoints_write)),
      read_count_(count_or_zero(config.num_checkpoints_read)) {
  if (steps_between_ > 0) {
    trigger_ = Trigger::kSteps;
  } else if (pause_.count() > 0) {
    trigger_ = Trigger::kTime;
  }
}

bool CheckpointSchedule::is_due(const TrainingMoment& moment) const {
  if (is_limited_ && saved_count_ >= write_count_) return false;
  switch (trigger_) {
    case Trigger::kSteps:
      return !moment.is_epoch_end && moment.step > 0 && moment.step % steps_between_ == 0;
    case Trigger::kTime:
      return moment.elapsed - last_saved_ >= pause_;
    case Trigger::kEpochs:
      return moment.is_epoch_end && moment.epoch >= first_epoch_ &&
             (moment.epoch - first_epoch_) % epochs_between_ == 0;
  }
  return false;
}

void CheckpointSchedule::saved(const TrainingMoment& moment) {
  ++saved_count_;
  last_saved_ = moment.elapsed;
}

}  // namespace millrace::bench
