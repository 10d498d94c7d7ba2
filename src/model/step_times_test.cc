#include "model/step_times.h"

#include <gtest/gtest.h>

namespace millrace::model {
namespace {

constexpr uint64_t kMs = 1'000'000;

analyze::StepStats step(int64_t epoch, uint64_t begin_ms, uint64_t wait_ms) {
  return {.epoch = epoch,
          .begin_ns = begin_ms * kMs,
          .duration_ns = (wait_ms + 5) * kMs,
          .wait_ns = wait_ms * kMs};
}

TEST(StepTimes, LastFromTheEndOfAWaitToTheNextWait) {
  analyze::Profile profile;
  profile.steps.all = {step(0, 0, 10), step(0, 50, 20), step(0, 110, 10)};
  const StepTimes times = step_times_of(profile);
  EXPECT_EQ(times.count, 2u);
  EXPECT_NEAR(times.mean_s, 0.040, 1e-9);
  EXPECT_NEAR(times.stdev_s, 0, 1e-9);
  EXPECT_FALSE(times.by_summary);
}

TEST(StepTimes, DoNotIncludeCheckpointsNorGapsBetweenEpochs) {
  analyze::Profile profile;
  profile.steps.all = {step(0, 0, 10), step(0, 150, 10), step(1, 1000, 10), step(1, 1050, 10)};
  profile.stretches.push_back(
      {.role = analyze::Role::kCheckpoint, .begin_ns = 30 * kMs, .end_ns = 130 * kMs});
  const StepTimes times = step_times_of(profile);
  EXPECT_EQ(times.count, 2u);
  EXPECT_NEAR(times.mean_s, 0.040, 1e-9);
}

TEST(StepTimes, LeaveOutPauses) {
  analyze::Profile profile;
  for (uint64_t i = 0; i < 10; ++i) profile.steps.all.push_back(step(0, 50 * i, 10));
  profile.steps.all.push_back(step(0, 9000, 10));
  const StepTimes times = step_times_of(profile);
  EXPECT_EQ(times.count, 9u);
  EXPECT_EQ(times.left_out, 1u);
  EXPECT_NEAR(times.mean_s, 0.040, 1e-9);
}

TEST(StepTimes, FollowFromTotalsIfThereAreNoSingleSteps) {
  analyze::Profile profile;
  profile.steps.compute_ns = {
      .count = 10, .sum = 300 * kMs, .p25 = 29 * kMs, .mean = 30e6, .p75 = 31 * kMs};
  profile.stalls.push_back({.phase = "in training", .stall_ns = 100 * kMs});
  profile.stalls.push_back({.phase = "before training", .stall_ns = 900 * kMs});
  const StepTimes times = step_times_of(profile);
  EXPECT_TRUE(times.by_summary);
  EXPECT_NEAR(times.mean_s, 0.040, 1e-9);
}

TEST(StepTimes, AnEvaluationTakesTheTimeBetweenEpochs) {
  analyze::Profile profile;
  profile.steps.all = {step(0, 0, 10), step(0, 50, 10), step(1, 400, 10), step(1, 450, 10)};
  profile.steps.compute_ns = {.count = 4, .mean = 5e6};
  profile.steps.wait_ns = {.count = 4, .sum = 40 * kMs};
  profile.ranks.emplace_back().wait_ns = 140 * kMs;  // 100 ms of them in evaluations
  const Counts counts{.epochs = 2, .eval_passes = 2, .eval_batches = 4};
  // From 65 ms to 400 ms, without 35 ms of the last step and 50 ms of waiting.
  EXPECT_NEAR(eval_step_s(profile, counts, step_times_of(profile)), 0.0625, 1e-9);
}

TEST(TimeModel, IsConstantNormalOrGamma) {
  using Kind = bench::TimeModel::Kind;
  EXPECT_EQ(time_model_of(0.1, 0.001).kind, Kind::kConstant);
  EXPECT_EQ(time_model_of(0.1, 0.01).kind, Kind::kNormal);
  const bench::TimeModel gamma = time_model_of(0.1, 0.05);
  EXPECT_EQ(gamma.kind, Kind::kGamma);
  EXPECT_NEAR(gamma.first * gamma.second, 0.1, 1e-12) << "the mean";
  EXPECT_NEAR(gamma.first * gamma.second * gamma.second, 0.0025, 1e-12) << "the variance";
  EXPECT_EQ(time_model_of(0, 0).kind, Kind::kConstant);
}

}  // namespace
}  // namespace millrace::model
