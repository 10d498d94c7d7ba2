// Tests which jobs are compared, per what, what is a regression, and what is printed of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "base/text/json.h"
#include "base/text/text.h"
#include "report/testing/compared_jobs.h"

namespace millrace::report {
namespace {

using analyze::FunctionStats;
using analyze::GroupStats;
using analyze::Layer;
using analyze::LayerStats;
using analyze::Profile;
using analyze::TimeSplit;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

TEST(Compare, AJobDoesNotDifferFromItself) {
  const Comparison comparison = compare(training(), training());
  EXPECT_THAT(comparison.differences, IsEmpty());
  EXPECT_THAT(comparison.notes, IsEmpty());
  EXPECT_EQ(comparison.regression_count(), 0u);
  EXPECT_EQ(comparison.per, Per::kStep);
  EXPECT_EQ(comparison.before.steps, 100);
}

TEST(Compare, ALongerWallTimeIsARegressionWithItsWholeEffect) {
  Profile after = training();
  after.job.wall_ns = 25 * kSecond;
  const Comparison comparison = compare(training(), after);
  EXPECT_THAT(described(comparison), ElementsAre("job job: wall time slower !"));
  const Difference& wall = comparison.differences.front();
  EXPECT_DOUBLE_EQ(wall.before, 0.2e9);  // per step
  EXPECT_DOUBLE_EQ(wall.after, 0.25e9);
  EXPECT_DOUBLE_EQ(*wall.relative(), 0.25);
  EXPECT_NEAR(wall.effect_ns, 5e9, 1);
  EXPECT_EQ(comparison.regression_count(), 1u);
}

TEST(Compare, AShorterWallTimeIsNoRegression) {
  Profile after = training();
  after.job.wall_ns = 10 * kSecond;
  const Comparison comparison = compare(training(), after);
  EXPECT_THAT(described(comparison), ElementsAre("job job: wall time faster"));
  EXPECT_NEAR(comparison.differences.front().effect_ns, -10e9, 1);
}

TEST(Compare, WithStrictAnythingWorseIsARegression) {
  Profile after = training();
  after.functions[1].count = 30'000;
  EXPECT_THAT(described(compare(training(), after)),
              ElementsAre("function posix read: calls more"));
  after.functions[2].count = 1'000;
  after.functions[1].size_bytes.median *= 2;
  EXPECT_THAT(described(compare(training(), after, {.strict = true})),
              ElementsAre("function posix open: calls fewer", "function posix read: calls more !",
                          "function posix read: median size more"));
}

// What is slower in a job that became faster is shown, but fails no CI.
TEST(Compare, AFasterJobHasNoRegressions) {
  Profile after = training();
  after.job.wall_ns = 9'400 * kMs;
  for (TimeSplit* one : {&after.time.mean, &after.time.ranks[0], &after.time.ranks[1]}) {
    one->wait_ns = 5 * kSecond;
  }
  after.functions[1].time_ns = 27 * kSecond;
  after.layers[1].busy_ns = 24 * kSecond;
  const Comparison comparison = compare(training(), after);
  EXPECT_THAT(described(comparison), testing::Contains("job job: waiting for data slower"));
  EXPECT_EQ(comparison.regression_count(), 0u);
  EXPECT_THAT(comparison.notes, testing::Contains(HasSubstr("the job became faster")));
  EXPECT_GT(compare(training(), after, {.strict = true}).regression_count(), 0u);
}

TEST(Compare, ARegressionIsOneAgainstEachBaseline) {
  std::vector<Profile> baselines(3, training());
  baselines[0].job.wall_ns = 19 * kSecond;
  baselines[2].job.wall_ns = 23 * kSecond;
  Profile after = training();
  after.job.wall_ns = 25 * kSecond;  // 25 % more than the middle one, but not than the slowest
  Comparison comparison = compare_with_baselines(baselines, after);
  EXPECT_THAT(described(comparison), ElementsAre("job job: wall time slower"));
  EXPECT_EQ(comparison.baselines, 3u);
  EXPECT_DOUBLE_EQ(comparison.differences.front().before, 0.2e9);
  EXPECT_THAT(comparison.notes,
              ElementsAre(HasSubstr("3 baselines, whose wall time varies by 21.1 %")));
  after.job.wall_ns = 26 * kSecond;
  comparison = compare_with_baselines(baselines, after);
  EXPECT_THAT(described(comparison), ElementsAre("job job: wall time slower !"));
  EXPECT_THAT(described(compare_with_baselines({training()}, after)),
              ElementsAre("job job: wall time slower !"));
}

TEST(Compare, TwiceTheRanksAndTwiceTheWorkAreNoDifference) {
  Profile after = training();
  after.job.ranks = 4;
  for (LayerStats& layer : after.layers) {
    for (uint64_t* sum : {&layer.count, &layer.time_ns, &layer.busy_ns, &layer.overlapped_ns,
                          &layer.bytes_read, &layer.metadata_count, &layer.metadata_ns}) {
      *sum *= 2;
    }
  }
  for (FunctionStats& function : after.functions) {
    function.count *= 2;
    function.time_ns *= 2;
    function.bytes *= 2;
  }
  for (auto* groups : {&after.kinds, &after.extensions}) {
    for (GroupStats& group : *groups) {
      for (uint64_t* sum : {&group.io.opens, &group.io.reads, &group.io.bytes_read,
                            &group.io.read_ns, &group.io.metadata_ns}) {
        *sum *= 2;
      }
    }
  }
  after.job.bytes_read *= 2;
  after.steps.duration_ns.count = 400;
  for (const char* name : {"rank 2", "rank 3"}) {
    after.time.ranks.push_back(split(name));
    after.ranks.push_back({.name = name, .io = {.bytes_read = 1'000'000'000}});
  }
  const Comparison comparison = compare(training(), after);
  EXPECT_THAT(described(comparison), IsEmpty());
  EXPECT_THAT(comparison.notes, ElementsAre("2 ranks exist only after: rank 2, ..."));
}

TEST(Compare, AnEpochWithMoreRanksIsFasterAndReadsTheSameBytes) {
  Profile before = training();
  before.steps = {};
  before.epochs.clear();
  Profile after = before;
  after.job.ranks = 4;
  after.job.wall_ns = 10 * kSecond;
  after.time.mean.compute_ns /= 2;
  after.time.ranks.clear();
  after.ranks.clear();
  const Comparison comparison = compare(before, after);
  EXPECT_EQ(comparison.per, Per::kEpoch);
  const auto found = described(comparison);
  EXPECT_THAT(found, testing::Contains("job job: wall time faster"));
  EXPECT_THAT(found, testing::Contains("job job: compute faster"));
  EXPECT_THAT(found, testing::Not(testing::Contains(HasSubstr("bytes"))));
  EXPECT_THAT(found, testing::Not(testing::Contains(HasSubstr("calls"))));
}

TEST(Compare, TheStartOfAShortJobIsNotARegressionOfItsSteps) {
  Profile after = training();  // ten steps in one epoch, and the same time around them as before
  after.job.wall_ns = 3 * kSecond;
  after.steps.duration_ns.count = after.steps.wait_ns.count = 20;
  after.job.epochs = 1;
  after.epochs.resize(1);
  after.epochs[0].steps = 10;
  after.epochs[0].end_ns = 2 * kSecond;
  after.epochs[0].time = {.compute_ns = 1'500 * kMs, .wait_ns = 300 * kMs};
  const Comparison comparison = compare(training(), after);
  EXPECT_TRUE(comparison.lengths_differ);
  EXPECT_EQ(comparison.regression_count(), 0u) << described(comparison).front();
  EXPECT_THAT(comparison.notes, testing::Contains(HasSubstr("only steps and epochs are judged")));
  after.steps.duration_ns.mean *= 1.5;
  EXPECT_THAT(described(compare(training(), after)),
              testing::Contains("job job: mean step slower !"));
}

TEST(Compare, EmptyProfilesHaveNoDifferences) {
  EXPECT_THAT(compare(Profile(), Profile()).differences, IsEmpty());
  const Comparison appeared = compare(Profile(), training());
  EXPECT_EQ(appeared.per, Per::kJob);
  EXPECT_THAT(described(appeared), testing::Contains("function posix read: time new"));
  const Comparison vanished = compare(training(), Profile());
  EXPECT_THAT(described(vanished), testing::Contains("function posix read: time gone"));
  EXPECT_EQ(vanished.regression_count(), 0u);
  for (const Comparison& comparison : {appeared, vanished, compare(Profile(), Profile())}) {
    const auto document = parse_json(compare_json(comparison, {.top = 0}), "json");
    EXPECT_TRUE(document.ok()) << document.error().message();
    EXPECT_THAT(compare_text(comparison, {}, Terminal()), testing::Not(IsEmpty()));
  }
}

TEST(Compare, JobsWithoutStepsOrEpochsAreComparedAsAWholeWithANote) {
  Profile before = training();
  before.steps = {};
  before.epochs.clear();
  before.job.epochs = 0;
  Profile after = before;
  after.job.wall_ns *= 2;
  after.job.dataset_bytes_read *= 2;
  Comparison comparison = compare(before, after);
  EXPECT_EQ(comparison.per, Per::kJob);
  EXPECT_THAT(comparison.notes, ElementsAre(HasSubstr("comparing whole jobs")));
  EXPECT_THAT(described(comparison), ElementsAre("job job: wall time slower !"));
  comparison = compare(before, after, {.per = Per::kGigabyte});
  EXPECT_EQ(comparison.per, Per::kGigabyte);
  EXPECT_THAT(comparison.notes, IsEmpty());
  EXPECT_THAT(described(comparison), testing::Not(testing::Contains(HasSubstr("wall time"))));
  comparison = compare(before, after, {.per = Per::kEpoch});
  EXPECT_THAT(comparison.notes,
              ElementsAre("at least one job has no epoch to compare by: comparing whole jobs"));
}

TEST(Compare, ReportsAChangeOfExactlyTheThreshold) {
  Profile after = training();
  after.job.wall_ns = 22 * kSecond;
  EXPECT_THAT(described(compare(training(), after)), ElementsAre("job job: wall time slower !"));
  after.job.wall_ns -= 1'000'000;
  EXPECT_THAT(described(compare(training(), after)), IsEmpty());
  EXPECT_THAT(described(compare(training(), after, {.threshold = 0.05})),
              ElementsAre("job job: wall time slower !"));
  after.job.wall_ns = 18 * kSecond;
  EXPECT_THAT(described(compare(training(), after)), ElementsAre("job job: wall time faster"));
  after.job.wall_ns += 1'000'000;
  EXPECT_THAT(described(compare(training(), after)), IsEmpty());
}

TEST(Compare, IgnoresTinyChanges) {
  Profile before = training();
  before.time.mean.checkpoint_ns = 1000;
  before.functions.push_back({.name = "stat", .layer = Layer::kPosix, .count = 2, .time_ns = 500});
  Profile after = before;
  after.time.mean.checkpoint_ns = 900'000;
  after.functions.back().count = 11;  // 9 more
  after.functions.back().time_ns = 400'000;
  after.functions.back().bytes = 60'000;
  after.functions.push_back({.name = "lstat", .layer = Layer::kPosix, .count = 9, .time_ns = 900});
  after.functions[1].latency_ns.median = before.functions[1].latency_ns.median = 500;
  after.functions[1].latency_ns.median = 1'400;
  EXPECT_THAT(described(compare(before, after)), IsEmpty());
}

TEST(Compare, ASmallCostIsADifferenceButNoRegression) {
  Profile after = training();
  after.time.mean.idle_ns = 150 * kMs;  // less than 1 % of the wall time
  EXPECT_THAT(described(compare(training(), after)), testing::Contains("job job: idle slower"));
  EXPECT_EQ(compare(training(), after).regression_count(), 0u);
}

TEST(Compare, WaitingFromDifferentSourcesIsNotCompared) {
  Profile after = training();
  after.time.basis = analyze::WaitBasis::kIoTime;
  for (TimeSplit* one : {&after.time.mean, &after.time.ranks[0], &after.time.ranks[1]}) {
    one->wait_ns = 10 * kSecond;
  }
  after.steps.wait_ns.median *= 3;
  const Comparison comparison = compare(training(), after);
  EXPECT_THAT(described(comparison), IsEmpty());
  EXPECT_THAT(comparison.notes,
              ElementsAre("waiting is not compared: it is measured from regions before and from io "
                          "time after"));
}

TEST(Compare, LostEventsAndDifferentDatasetsAreNoted) {
  Profile after = training();
  after.job.lost_events = 1234;
  after.job.dataset_bytes *= 2;
  EXPECT_THAT(compare(training(), after).notes,
              UnorderedElementsAre("the job after lost 1,234 events: its numbers are too low",
                                   HasSubstr("the datasets differ: 954 MiB before, ")));
}

TEST(Compare, ASingleRankMayHaveAnotherName) {
  Profile before = training();
  before.job.ranks = 1;
  before.time.ranks = {split("job")};
  before.ranks.clear();
  EXPECT_THAT(compare(before, training()).notes, IsEmpty());
}

TEST(Compare, TheTextFitsEightyColumnsAndNamesTheRegressions) {
  Profile after = training();
  after.job.traces = {std::string(200, 'x')};
  after.job.wall_ns = 25 * kSecond;
  after.functions[1].name = std::string(300, 'r') + "\x1b[31m";
  const Comparison comparison = compare(training(), after);
  const std::string text = compare_text(comparison, {}, Terminal());
  EXPECT_THAT(text, HasSubstr("job: +5 s of the wall time (20.0 %)\n"));
  EXPECT_THAT(text, HasSubstr("  !  wall time"));
  EXPECT_THAT(text, HasSubstr("1 regression, marked with !\n"));
  EXPECT_THAT(text, testing::Not(HasSubstr("\x1b")));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(display_width(line), 80u) << line;
}

TEST(Compare, AFasterJobSavesAShareOfTheTimeBefore) {
  Profile after = training();
  after.job.wall_ns = 5 * kSecond;
  const std::string text = compare_text(compare(training(), after), {}, Terminal());
  EXPECT_THAT(text, HasSubstr("job: -15 s of the wall time (75.0 %)\n"));
}

TEST(Compare, ShowsTheTopDifferencesAndCountsTheRest) {
  Profile after = training();
  after.functions[1].name = "pread";
  const Comparison comparison = compare(training(), after);
  const std::string text = compare_text(comparison, {.top = 1}, Terminal());
  EXPECT_THAT(text, HasSubstr("1 more with smaller effects; --top 0 shows all\n"));
  const auto document = parse_json(compare_json(comparison, {.top = 1}), "json");
  ASSERT_TRUE(document.ok());
  EXPECT_EQ(document->root.find("differences")->items().size(), 1u);
}

TEST(Compare, TheJsonHasTheSameNumbers) {
  Profile after = training();
  after.job.wall_ns = 25 * kSecond;
  const auto document = parse_json(compare_json(compare(training(), after), {}), "json");
  ASSERT_TRUE(document.ok()) << document.error().message();
  const Node& root = document->root;
  EXPECT_EQ(root.find("format")->text(), "millrace-comparison");
  EXPECT_EQ(*root.find("regressions")->as_uint(), 1u);
  EXPECT_EQ(root.find("per")->text(), "step");
  const Node& first = root.find("differences")->items().front();
  EXPECT_EQ(first.find("measure")->text(), "wall time");
  EXPECT_DOUBLE_EQ(*first.find("relative")->as_double(), 0.25);
  EXPECT_TRUE(*first.find("regression")->as_bool());
}

}  // namespace
}  // namespace millrace::report
