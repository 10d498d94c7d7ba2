#include "bench/checkpoint/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace millrace::bench {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;

// The epochs and steps at which a training of 6 epochs of 10 steps, one second each, saves.
std::vector<std::string> saves(const CheckpointConfig& config) {
  CheckpointSchedule schedule(config);
  std::vector<std::string> found;
  std::chrono::nanoseconds elapsed{};
  const auto ask = [&](const TrainingMoment& moment) {
    if (!schedule.is_due(moment)) return;
    schedule.saved(moment);
    found.push_back(fmt::format("{}.{}", moment.epoch, moment.step));
  };
  for (uint64_t epoch = 1; epoch <= 6; ++epoch) {
    for (uint64_t step = 1; step <= 10; ++step) {
      elapsed += 1s;
      ask({.epoch = epoch, .step = step, .elapsed = elapsed});
    }
    ask({.epoch = epoch, .step = 10, .is_epoch_end = true, .elapsed = elapsed});
  }
  return found;
}

TEST(CheckpointSchedule, ByEpochsStartsAfterTheFirstAndSkipsThoseBetween) {
  CheckpointConfig config;
  config.checkpoint_after_epoch = 2;
  config.epochs_between_checkpoints = 3;
  EXPECT_THAT(saves(config), ElementsAre("2.10", "5.10"));
}

TEST(CheckpointSchedule, StepsCountWithinTheirEpoch) {
  CheckpointConfig config;
  config.steps_between_checkpoints = 6;
  EXPECT_THAT(saves(config), ElementsAre("1.6", "2.6", "3.6", "4.6", "5.6", "6.6"));
}

TEST(CheckpointSchedule, TheLastStepOfAnEpochSavesOnce) {
  CheckpointConfig config;
  config.steps_between_checkpoints = 10;
  config.num_checkpoints_write = 2;
  EXPECT_THAT(saves(config), ElementsAre("1.10", "2.10"));
}

TEST(CheckpointSchedule, ByTimeCountsFromTheLastCheckpoint) {
  CheckpointConfig config;
  config.time_between_checkpoints_s = 24.5;
  EXPECT_THAT(saves(config), ElementsAre("3.5", "5.10"));
}

TEST(CheckpointSchedule, StepsWinOverTimeAndTimeOverEpochs) {
  CheckpointConfig config;
  config.time_between_checkpoints_s = 5;
  EXPECT_EQ(CheckpointSchedule(config).trigger(), CheckpointSchedule::Trigger::kTime);
  config.steps_between_checkpoints = 3;
  EXPECT_EQ(CheckpointSchedule(config).trigger(), CheckpointSchedule::Trigger::kSteps);
  EXPECT_EQ(CheckpointSchedule(CheckpointConfig{}).trigger(), CheckpointSchedule::Trigger::kEpochs);
}

TEST(CheckpointSchedule, TheNumberOfCheckpointsIsALimit) {
  CheckpointConfig config;
  config.num_checkpoints_write = 2;
  EXPECT_THAT(saves(config), ElementsAre("1.10", "2.10"));
  config.num_checkpoints_write = 0;
  EXPECT_THAT(saves(config), IsEmpty());
}

TEST(CheckpointSchedule, AJobOfCheckpointsOnlyHasCountsAndAPause) {
  CheckpointConfig config;
  config.time_between_checkpoints_s = 0.25;
  config.num_checkpoints_write = 10;
  const CheckpointSchedule schedule(config);
  EXPECT_EQ(schedule.write_count_alone(), 10u);
  EXPECT_EQ(schedule.read_count(), 0u);
  EXPECT_EQ(schedule.pause(), 250ms);
}

TEST(CheckpointSchedule, AJobOfCheckpointsOnlyWritesNoneIfItIsToReadOrToWriteZero) {
  CheckpointConfig config;
  EXPECT_EQ(CheckpointSchedule(config).write_count_alone(), 1u) << "nothing is asked for";
  config.num_checkpoints_read = 3;
  EXPECT_EQ(CheckpointSchedule(config).write_count_alone(), 0u) << "as in DLIO";
  config.num_checkpoints_read = -1;
  config.num_checkpoints_write = 0;
  EXPECT_EQ(CheckpointSchedule(config).write_count_alone(), 0u);
}

}  // namespace
}  // namespace millrace::bench
