#include "bench/run/results.h"

#include <gmock/gmock.h>

#include "base/text/json.h"
#include "bench/run/results_files.h"
#include "comm/single.h"

namespace millrace::bench {
namespace {

using testing::DoubleNear;

constexpr uint64_t kMs = 1'000'000;

// The first step waits 50 ms, which the figures leave out. The others wait 2 ms, compute 8 ms that
// took 9, and cost 1 ms of their own.
Pass pass_of(uint64_t steps) {
  Pass pass{.epoch = 1, .samples = steps * 4, .bytes_read = 6'000'000};
  pass.steps.push_back({50 * kMs, 9 * kMs, 8 * kMs, 60 * kMs});
  for (uint64_t i = 1; i < steps; ++i) pass.steps.push_back({2 * kMs, 9 * kMs, 8 * kMs, 12 * kMs});
  for (const Step& step : pass.steps) pass.duration_ns += step.whole_ns;
  return pass;
}

TEST(Results, UtilisationIsNominalComputeByTheTimeOfSteps) {
  Workload workload;
  workload.reader.batch_size = 4;
  const PassFigures figures = figures_of(pass_of(11), workload);
  EXPECT_THAT(figures.au, DoubleNear(8.0 / 12, 1e-9));
  // DLIO: 10 steps of 9 ms in the whole time of 180 ms less the first step's 59 ms.
  EXPECT_THAT(figures.au_dlio, DoubleNear(90.0 / 121, 1e-9));
  EXPECT_THAT(figures.dlio_samples_per_second, DoubleNear(9 * 4 / 0.121, 1e-6));
  EXPECT_THAT(figures.samples_per_second(), DoubleNear(44 / 0.18, 1e-6));
  EXPECT_THAT(figures.first_batch_seconds, DoubleNear(0.05, 1e-9));
  EXPECT_THAT(figures.harness_seconds, DoubleNear(0.011, 1e-9));
}

TEST(Results, AnEvaluationsThroughputHasAllStepsAndTheWholeTimeAsInDlio) {
  Workload workload;
  workload.reader.batch_size_eval = 6;
  Pass pass = pass_of(11);
  pass.split = Split::kEval;
  const PassFigures figures = figures_of(pass, workload);
  EXPECT_THAT(figures.dlio_samples_per_second, DoubleNear(11 * 6 / 0.18, 1e-6));
  EXPECT_THAT(figures.au_dlio, DoubleNear(90.0 / 121, 1e-9));
}

TEST(Results, CheckpointsDivideAnEpochIntoBlocksAsInDlio) {
  Workload workload;
  workload.reader.batch_size = 4;
  Pass pass = pass_of(11);
  pass.blocks = {{.steps = 5, .duration_ns = 108 * kMs}, {.steps = 6, .duration_ns = 72 * kMs}};
  const PassFigures figures = figures_of(pass, workload);
  // Each block leaves out its own first step: 59 ms of the first, 11 ms of the second.
  EXPECT_THAT(figures.au_dlio, DoubleNear((36.0 / 49 * 5 + 45.0 / 61 * 6) / 11, 1e-9));
  EXPECT_THAT(figures.dlio_samples_per_second,
              DoubleNear((3 * 4 / 0.049 * 5 + 4 * 4 / 0.061 * 6) / 11, 1e-6));
}

TEST(Results, BlocksHaveAllStepsOfAPass) {
  Pass pass = pass_of(3);
  pass.end_block(100);
  pass.end_block(120);  // without a step
  pass.steps.resize(7);
  pass.end_block(500);
  ASSERT_EQ(pass.blocks.size(), 2);
  EXPECT_EQ(pass.blocks[0].steps, 3);
  EXPECT_EQ(pass.blocks[0].duration_ns, 100);
  EXPECT_EQ(pass.blocks[1].steps, 4);
  EXPECT_EQ(pass.blocks[1].duration_ns, 400);
}

TEST(Results, SayWhetherTheExpectationIsMet) {
  Workload workload;
  RankRun run;
  run.passes = {pass_of(11)};
  const auto comm = comm::single();
  for (const auto& [expected, word] : {std::pair{0.66, "66 %: pass"}, {0.67, "67 %: fail"}}) {
    workload.metric_au = expected;
    const auto figures = gather_figures(run, workload, *comm);
    EXPECT_THAT(figures_text(*figures, workload, {}), testing::HasSubstr(word));
    const auto json = parse_json(figures_json(*figures, workload), "figures");
    EXPECT_EQ(json->root.find("au_meets_expectation")->text(), expected < 0.667 ? "true" : "false");
  }
  // No rounding makes a failure look like a pass.
  workload.metric_au = 0.6667;
  const auto close = gather_figures(run, workload, *comm);
  EXPECT_THAT(figures_text(*close, workload, {}),
              testing::HasSubstr("66.6 %, expected at least 66.67 %: fail"));
}

TEST(Results, FewStepsGiveNoNonsense) {
  Workload workload;
  workload.output.exclude_end_steps = 5;
  EXPECT_EQ(figures_of(Pass{}, workload).au, 0);
  EXPECT_GT(figures_of(pass_of(1), workload).au, 0) << "a single step is not left out";
  EXPECT_EQ(figures_of(pass_of(2), workload).dlio_samples_per_second, 0);
}

TEST(Results, AreGatheredAndWrittenAsJson) {
  Workload workload;
  workload.name = "w";
  RankRun run;
  run.passes = {pass_of(11), pass_of(11)};
  run.sample_latency_ns.add(1000);
  run.first_bad_sample = "x.npz";
  run.bad_samples = 2;
  const auto comm = comm::single();
  const auto figures = gather_figures(run, workload, *comm);
  ASSERT_TRUE(figures.ok()) << figures.error().message();
  EXPECT_EQ(figures->passes.size(), 2);
  EXPECT_EQ(figures->host_count, 1);
  EXPECT_EQ(figures->batch_wait_ns.count(), 22);
  EXPECT_EQ(figures->first_bad_sample, "x.npz");
  EXPECT_THAT(mean_au(*figures), DoubleNear(8.0 / 12, 1e-9));
  const auto json = parse_json(figures_json(*figures, workload), "figures");
  ASSERT_TRUE(json.ok()) << json.error().message();
  EXPECT_EQ(json->root.find("passes")->items().size(), 2);
  EXPECT_EQ(json->root.find("bad_samples")->text(), "2");
  const std::string text = figures_text(*figures, workload, {});
  EXPECT_THAT(text, testing::HasSubstr("66.7 %"));
}

}  // namespace
}  // namespace millrace::bench
