// CheckpointSchedule: when a job writes a checkpoint.
//
// By steps if steps_between_checkpoints is set, else by time if time_between_checkpoints is, else
// by epochs. Steps count within their epoch, as in DLIO. num_checkpoints_write limits all of them.
// It only decides: the caller says what time it is and when it has saved.
#pragma once

#include <chrono>
#include <cstdint>

#include "bench/workload/workload.h"

namespace millrace::bench {

// A moment of the training: after a step, or after the last step of an epoch.
struct TrainingMoment {
  uint64_t epoch = 1;  // 1-based, as in DLIO
  uint64_t step = 0;   // completed in this epoch
  bool is_epoch_end = false;
  std::chrono::nanoseconds elapsed{};  // since the start of the training
};

class CheckpointSchedule {
 public:
  enum class Trigger : uint8_t { kEpochs, kSteps, kTime };

  explicit CheckpointSchedule(const CheckpointConfig& config);

  Trigger trigger() const { return trigger_; }

  // Whether to save now. The clocks of the ranks differ: if the trigger is time, one rank decides
  // for all (Checkpointer::is_due).
  bool is_due(const TrainingMoment& moment) const;

  // A checkpoint was begun at this moment.
  void saved(const TrainingMoment& moment);

  uint64_t saved_count() const { return saved_count_; }

  // How many a job without training writes: as many as are asked for. If nothing is, one, unless
  // some are to be read.
  uint64_t write_count_alone() const {
    return is_limited_ ? write_count_ : (read_count_ == 0 ? 1 : 0);
  }
  // How many are to be read back; 0 if that is not set.
  uint64_t read_count() const { return read_count_; }
  // How long such a job computes before each checkpoint.
  std::chrono::nanoseconds pause() const { return pause_; }

 private:
  Trigger trigger_ = Trigger::kEpochs;
  uint64_t first_epoch_;
  uint64_t epochs_between_;
  uint64_t steps_between_;
  std::chrono::nanoseconds pause_{};
  bool is_limited_;
  uint64_t write_count_;
  uint64_t read_count_;
  uint64_t saved_count_ = 0;
  std::chrono::nanoseconds last_saved_{};
};

}  // namespace millrace::bench
