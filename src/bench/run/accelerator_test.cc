#include "bench/run/accelerator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "bench/run/results.h"

namespace millrace::bench {
namespace {

constexpr uint64_t kMs = 1'000'000;

// A pass of steps that all end late by what `late_ns` says, and wait for nothing.
Pass pass_of(ComputePace& pace, std::span<const uint64_t> late_ns, uint64_t nominal_ns) {
  Pass pass;
  pace.begin_pass();
  for (const uint64_t late : late_ns) {
    Step step{.nominal_ns = nominal_ns};
    step.compute_ns = pace.begin_step(nominal_ns) + late;
    step.whole_ns = step.compute_ns;
    pace.end_step(step.compute_ns);
    pass.steps.push_back(step);
    pass.duration_ns += step.whole_ns;
  }
  return pass;
}

TEST(ComputePace, AStepThatEndedLateMakesTheNextOneShorterByAtMostItsLength) {
  ComputePace pace(0);
  pace.begin_pass();
  EXPECT_EQ(pace.begin_step(10 * kMs), 10 * kMs);
  pace.end_step(13 * kMs);
  EXPECT_EQ(pace.begin_step(10 * kMs), 7 * kMs);
  pace.end_step(7 * kMs + 25 * kMs);
  EXPECT_EQ(pace.begin_step(10 * kMs), 0);
  pace.end_step(0);
  EXPECT_EQ(pace.begin_step(10 * kMs), 10 * kMs) << "the rest is lost";
}

TEST(ComputePace, AnExcludedStepLendsNoTime) {
  ComputePace pace(1);
  Workload workload;  // of which the first step does not count
  const uint64_t late_ns[] = {90 * kMs, 0, 0};
  const Pass pass = pass_of(pace, late_ns, 10 * kMs);
  EXPECT_EQ(pass.steps[1].compute_ns, 10 * kMs);
  EXPECT_EQ(figures_of(pass, workload).au, 1);
}

TEST(ComputePace, APassLendsNoTimeToTheNext) {
  ComputePace pace(0);
  const uint64_t late_ns[] = {9 * kMs};
  pass_of(pace, late_ns, 10 * kMs);
  const Pass next = pass_of(pace, std::span<const uint64_t>(late_ns).first(1), 10 * kMs);
  EXPECT_EQ(next.steps[0].compute_ns, 19 * kMs);
}

TEST(ComputePace, NoLatenessMakesAUtilisationAbove100Percent) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 3000; ++round) {
    Workload workload;
    workload.output.exclude_start_steps = random() % 5;
    workload.output.exclude_end_steps = random() % 4;
    ComputePace pace(workload.output.exclude_start_steps);
    for (int epoch = 0; epoch < 2; ++epoch) {
      std::vector<uint64_t> late_ns(1 + random() % 12);
      for (uint64_t& late : late_ns) late = random() % 4 == 0 ? random() % (40 * kMs) : 0;
      const PassFigures figures =
          figures_of(pass_of(pace, late_ns, 1 + random() % (10 * kMs)), workload);
      ASSERT_LE(figures.au, 1) << "round " << round;
      ASSERT_LE(figures.au_dlio, 1) << "round " << round;
    }
  }
}

}  // namespace
}  // namespace millrace::bench
