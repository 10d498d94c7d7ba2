#include "report/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "base/text/json.h"
#include "base/text/text.h"

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

constexpr uint64_t kMs = 1'000'000;
constexpr uint64_t kSecond = 1'000'000'000;

TimeSplit split(const std::string& name) {
  return {.name = name,
          .wall_ns = 20 * kSecond,
          .compute_ns = 15 * kSecond,
          .io_ns = 8 * kSecond,
          .wait_ns = 3 * kSecond,
          .io_overlapped_ns = 5 * kSecond,
          .io_exposed_ns = 3 * kSecond,
          .step_ns = 19 * kSecond,
          .wait_share = 0.15};
}

FunctionStats read_function() {
  return {.name = "read",
          .layer = Layer::kPosix,
          .kind = wire::CallKind::kRead,
          .count = 20'000,
          .time_ns = 18 * kSecond,
          .bytes = 2'000'000'000,
          .size_bytes = {.count = 20'000, .median = 100'000},
          .latency_ns = {.count = 20'000, .median = 800'000, .p99 = 5 * kMs}};
}

// Two ranks, two epochs of fifty steps, twenty seconds; 15 % of the time waits.
Profile training() {
  Profile profile;
  profile.job = {.traces = {"t"},
                 .hosts = {"node1"},
                 .ranks = 2,
                 .wall_ns = 20 * kSecond,
                 .dataset_bytes = 1'000'000'000,
                 .dataset_bytes_read = 2'000'000'000,
                 .bytes_read = 2'000'000'000,
                 .epochs = 2,
                 .steps = 100};
  profile.time = {.basis = analyze::WaitBasis::kRegions,
                  .job = split("job"),
                  .mean = split("mean"),
                  .ranks = {split("rank 0"), split("rank 1")}};
  profile.layers = {{.layer = Layer::kApplication,
                     .count = 400,
                     .time_ns = 40 * kSecond,
                     .busy_ns = 38 * kSecond,
                     .overlapped_ns = 30 * kSecond},
                    {.layer = Layer::kPosix,
                     .count = 22'000,
                     .time_ns = 20 * kSecond,
                     .busy_ns = 16 * kSecond,
                     .overlapped_ns = 10 * kSecond,
                     .bytes_read = 2'000'000'000,
                     .metadata_count = 2'000,
                     .metadata_ns = 2 * kSecond}};
  profile.functions = {{.name = "compute",
                        .layer = Layer::kApplication,
                        .kind = wire::CallKind::kRegion,
                        .role = analyze::Role::kCompute,
                        .count = 200,
                        .time_ns = 30 * kSecond,
                        .latency_ns = {.count = 200, .median = 150 * kMs, .p99 = 160 * kMs}},
                       read_function(),
                       {.name = "open",
                        .layer = Layer::kPosix,
                        .kind = wire::CallKind::kOpen,
                        .count = 2'000,
                        .time_ns = 2 * kSecond,
                        .latency_ns = {.count = 2'000, .median = 900'000, .p99 = 4 * kMs}}};
  profile.kinds = {{.name = "data",
                    .io = {.opens = 2'000,
                           .reads = 20'000,
                           .bytes_read = 2'000'000'000,
                           .read_ns = 18 * kSecond,
                           .metadata_ns = 2 * kSecond},
                    .files = 1'000}};
  profile.extensions = profile.kinds;
  profile.extensions[0].name = ".jpg";
  for (const char* name : {"rank 0", "rank 1"}) {
    profile.ranks.push_back({.name = name, .io = {.bytes_read = 1'000'000'000}});
  }
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    profile.epochs.push_back({.epoch = epoch,
                              .begin_ns = static_cast<uint64_t>(epoch) * 10 * kSecond,
                              .end_ns = static_cast<uint64_t>(epoch + 1) * 10 * kSecond,
                              .steps = 50,
                              .time = {.compute_ns = 7'500 * kMs, .wait_ns = 1'500 * kMs}});
  }
  const double step_ns = 190e6;
  profile.steps.duration_ns = {
      .count = 200, .mean = step_ns, .median = 190 * kMs, .p99 = 250 * kMs};
  profile.steps.wait_ns = {.count = 200, .mean = 30e6, .median = 30 * kMs, .p99 = 60 * kMs};
  return profile;
}

// "function posix read: time slower !" for each difference.
std::vector<std::string> described(const Comparison& comparison) {
  std::vector<std::string> out;
  for (const Difference& one : comparison.differences) {
    if (one.minor) continue;
    std::ostringstream line;
    line << kByNames[static_cast<size_t>(one.by)] << " " << one.name << ": " << one.measure << " "
         << kChangeNames[static_cast<size_t>(one.change)] << (one.regression ? " !" : "");
    out.push_back(line.str());
  }
  return out;
}

const Difference* find(const Comparison& comparison, By by, const std::string& measure) {
  for (const Difference& one : comparison.differences) {
    if (one.by == by && one.measure == measure) return &one;
  }
  return nullptr;
}

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

TEST(Compare, EachPartOfTheTimeIsCompared) {
  const std::pair<uint64_t TimeSplit::*, std::string> parts[] = {
      {&TimeSplit::wait_ns, "waiting for data"},
      {&TimeSplit::io_exposed_ns, "I/O not overlapped"},
      {&TimeSplit::fetch_exposed_ns, "fetching not overlapped"},
      {&TimeSplit::compute_ns, "compute"},
      {&TimeSplit::checkpoint_ns, "checkpoints"},
      {&TimeSplit::communicate_ns, "communication"},
      {&TimeSplit::idle_ns, "idle"}};
  for (const auto& [member, name] : parts) {
    Profile after = training();
    // Change the ranks, too: a rank that differs from the mean would be another difference.
    for (TimeSplit* one : {&after.time.mean, &after.time.ranks[0], &after.time.ranks[1]}) {
      one->*member += 2 * kSecond;
    }
    std::vector<std::string> found = described(compare(training(), after));
    std::erase_if(found, [](const std::string& line) { return line.starts_with("kind"); });
    // The other parts only say where the time went: if they cost any, the job takes longer.
    const bool is_waited_for = name == "waiting for data" || name == "checkpoints";
    EXPECT_THAT(found, ElementsAre("job job: " + name + " slower" + (is_waited_for ? " !" : "")));
  }
}

TEST(Compare, AFunctionCostsOnlyWhatDoesNotOverlap) {
  Profile after = training();
  after.functions[1].time_ns = 27 * kSecond;
  after.layers[1].time_ns = 29 * kSecond;
  after.layers[1].busy_ns = 24 * kSecond;  // of which 14 s do not overlap, 6 s before
  const Comparison comparison = compare(training(), after);
  EXPECT_THAT(described(comparison), ElementsAre("layer posix: time not overlapped slower",
                                                 "function posix read: time slower"));
  EXPECT_NEAR(find(comparison, By::kLayer, "time not overlapped")->effect_ns, 4e9, 1);
  EXPECT_NEAR(find(comparison, By::kFunction, "time")->effect_ns, 9e9 / 2 * 14 / 29, 1);
}

TEST(Compare, OverlappedTimeIsShownButNoRegression) {
  Profile before = training();
  before.layers[1].overlapped_ns = before.layers[1].busy_ns;
  Profile after = before;
  after.functions[1].time_ns = 36 * kSecond;
  after.layers[1].time_ns = 38 * kSecond;
  after.layers[1].busy_ns = after.layers[1].overlapped_ns = 30 * kSecond;
  const Comparison comparison = compare(before, after);
  EXPECT_THAT(described(comparison), ElementsAre("function posix read: time slower"));
  EXPECT_EQ(comparison.differences.front().effect_ns, 0);
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

TEST(Compare, AmountsAndSizesAreSeparateDifferences) {
  Profile after = training();
  after.functions[1].bytes *= 2;
  after.functions[1].errors = 100;
  after.functions[1].size_bytes.median = 4096;
  EXPECT_THAT(described(compare(training(), after)),
              ElementsAre("function posix read: bytes more", "function posix read: errors more",
                          "function posix read: median size fewer"));
  after = training();
  after.job.bytes_read /= 2;
  after.job.bytes_written = 1 << 20;
  EXPECT_THAT(described(compare(training(), after)),
              ElementsAre("job job: bytes read fewer", "job job: bytes written more"));
}

TEST(Compare, QuantilesAreComparedEvenIfSumsAreEqual) {
  Profile after = training();
  after.functions[1].latency_ns.p99 = 50 * kMs;
  after.layers[1].busy_ns = 17 * kSecond;  // the layer is slower, too: 6 s not overlapped, now 7
  Comparison comparison = compare(training(), after);
  EXPECT_THAT(described(comparison), ElementsAre("function posix read: p99 latency slower",
                                                 "layer posix: time not overlapped slower"));
  // 10,000 calls per rank, one in a hundred 45 ms longer; 7 of 20 s do not overlap.
  EXPECT_NEAR(comparison.differences.front().effect_ns, 45e6 * 100 * 7 / 20, 1);

  after = training();
  after.steps.duration_ns.median = 250 * kMs;
  after.steps.wait_ns.p99 = 30 * kMs;
  comparison = compare(training(), after);
  EXPECT_THAT(described(comparison),
              ElementsAre("job job: median step slower", "job job: p99 wait per step faster"));
  EXPECT_NEAR(comparison.differences.front().effect_ns, 60e6 * 100, 1);
}

TEST(Compare, QuantilesAreWeightedByTheCallsOfBothJobs) {
  Profile after = training();
  after.functions[1].count *= 100;
  after.functions[1].latency_ns.p99 /= 10;
  const Comparison comparison = compare(training(), after);
  EXPECT_THAT(described(comparison), ElementsAre("function posix read: p99 latency faster",
                                                 "function posix read: calls more"));
  EXPECT_NEAR(comparison.differences.front().effect_ns, -4.5e6 * 100 * 6 / 20, 1);
}

TEST(Compare, QuantilesOfFewCallsAreNoise) {
  Profile before = training();
  before.functions[1].latency_ns.count = kTailCountMin - 1;
  Profile after = before;
  after.functions[1].latency_ns.p99 *= 10;
  EXPECT_THAT(described(compare(before, after)), IsEmpty());
  before.functions[1].latency_ns.count = kMedianCountMin - 1;
  after.functions[1].latency_ns.median *= 10;
  EXPECT_THAT(described(compare(before, after)), IsEmpty());
}

TEST(Compare, NewAndGoneFunctionsAreNoRegressions) {
  Profile after = training();
  after.functions[1].name = "pread";
  const Comparison comparison = compare(training(), after);
  EXPECT_THAT(described(comparison), UnorderedElementsAre("function posix pread: time new",
                                                          "function posix read: time gone"));
  // 9 s per rank, 6 of 20 s do not overlap.
  EXPECT_NEAR(std::abs(comparison.differences[0].effect_ns), 9e9 * 6 / 20, 1);
  EXPECT_NEAR(comparison.differences[0].effect_ns + comparison.differences[1].effect_ns, 0, 1);
  EXPECT_FALSE(find(comparison, By::kFunction, "time")->regression);
}

TEST(Compare, ACallThatReplacesAnotherIsNoRegression) {
  Profile before = training();
  Profile after = training();
  after.functions[1].time_ns = 20 * kSecond;
  after.functions[2].time_ns = 1;  // two seconds moved from open to read
  EXPECT_THAT(
      described(compare(before, after)),
      UnorderedElementsAre("function posix open: time faster", "function posix read: time slower"));
}

TEST(Compare, LayersCanBeNewOrGone) {
  Profile after = training();
  after.layers.push_back({.layer = Layer::kStdio, .count = 100, .busy_ns = 2 * kSecond});
  const Comparison comparison = compare(training(), after);
  EXPECT_THAT(described(comparison), ElementsAre("layer stdio: time new"));
  EXPECT_NEAR(comparison.differences.front().effect_ns, 1e9, 1);
  EXPECT_THAT(described(compare(after, training())), ElementsAre("layer stdio: time gone"));
}

TEST(Compare, KindsAndExtensionsOfFilesAreCompared) {
  Profile after = training();
  after.kinds[0].io.bytes_read *= 3;
  after.extensions[0].name = ".tfrecord";
  EXPECT_THAT(described(compare(training(), after)),
              UnorderedElementsAre("kind data: bytes read more", "extension .jpg: time gone",
                                   "extension .tfrecord: time new"));
  after = training();
  after.kinds[0].io.read_ns = 28 * kSecond;
  const Comparison comparison = compare(training(), after);
  EXPECT_THAT(described(comparison), ElementsAre("kind data: time slower"));
  // Of 30 s in calls, 2 x 3 s do not overlap.
  EXPECT_NEAR(comparison.differences.front().effect_ns, 5e9 * 6 / 30, 1);
}

TEST(Compare, OneRankThatIsSlowerThanTheOthersStandsOut) {
  Profile after = training();
  after.time.ranks[1].wait_ns = 6 * kSecond;
  after.time.mean.wait_ns = 3'200 * kMs;
  after.ranks[0].io.bytes_read *= 2;
  EXPECT_THAT(described(compare(training(), after)),
              ElementsAre("rank rank 1: waiting for data slower", "rank rank 0: bytes read more"));
}

TEST(Compare, RanksThatFollowTheMeanAreShownOnlyByRank) {
  Profile after = training();
  for (TimeSplit* one : {&after.time.mean, &after.time.ranks[0], &after.time.ranks[1]}) {
    one->idle_ns = 3 * kSecond;
  }
  const Comparison comparison = compare(training(), after);
  EXPECT_THAT(described(comparison), ElementsAre("job job: idle slower"));
  const Terminal terminal;
  EXPECT_THAT(compare_text(comparison, {}, terminal), testing::Not(HasSubstr("rank 1")));
  EXPECT_THAT(compare_text(comparison, {.by = By::kRank}, terminal), HasSubstr("\nrank 1: +3 s"));
}

TEST(Compare, OneEpochThatIsSlowerStandsOut) {
  Profile after = training();
  after.epochs[1].end_ns += 4 * kSecond;
  const Comparison comparison = compare(training(), after);
  EXPECT_THAT(described(comparison), ElementsAre("epoch epoch 1: time slower"));
  EXPECT_DOUBLE_EQ(comparison.differences.front().effect_ns, 4e9);
  // If both epochs are slower, the job is slower, and each epoch is minor.
  after.epochs[0].end_ns += 4 * kSecond;
  EXPECT_THAT(described(compare(training(), after)), IsEmpty());
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
