// Tests how the parts of two jobs are compared: times, functions, layers, files, ranks and epochs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/testing/compared_jobs.h"

namespace millrace::report {
namespace {

using analyze::Layer;
using analyze::Profile;
using analyze::TimeSplit;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

TEST(CompareParts, EachPartOfTheTimeIsCompared) {
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

TEST(CompareParts, AFunctionCostsOnlyWhatDoesNotOverlap) {
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

TEST(CompareParts, OverlappedTimeIsShownButNoRegression) {
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

TEST(CompareParts, AmountsAndSizesAreSeparateDifferences) {
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

TEST(CompareParts, QuantilesAreComparedEvenIfSumsAreEqual) {
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

TEST(CompareParts, QuantilesAreWeightedByTheCallsOfBothJobs) {
  Profile after = training();
  after.functions[1].count *= 100;
  after.functions[1].latency_ns.p99 /= 10;
  const Comparison comparison = compare(training(), after);
  EXPECT_THAT(described(comparison), ElementsAre("function posix read: p99 latency faster",
                                                 "function posix read: calls more"));
  EXPECT_NEAR(comparison.differences.front().effect_ns, -4.5e6 * 100 * 6 / 20, 1);
}

TEST(CompareParts, QuantilesOfFewCallsAreNoise) {
  Profile before = training();
  before.functions[1].latency_ns.count = kTailCountMin - 1;
  Profile after = before;
  after.functions[1].latency_ns.p99 *= 10;
  EXPECT_THAT(described(compare(before, after)), IsEmpty());
  before.functions[1].latency_ns.count = kMedianCountMin - 1;
  after.functions[1].latency_ns.median *= 10;
  EXPECT_THAT(described(compare(before, after)), IsEmpty());
}

TEST(CompareParts, NewAndGoneFunctionsAreNoRegressions) {
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

TEST(CompareParts, ACallThatReplacesAnotherIsNoRegression) {
  Profile before = training();
  Profile after = training();
  after.functions[1].time_ns = 20 * kSecond;
  after.functions[2].time_ns = 1;  // two seconds moved from open to read
  EXPECT_THAT(
      described(compare(before, after)),
      UnorderedElementsAre("function posix open: time faster", "function posix read: time slower"));
}

TEST(CompareParts, LayersCanBeNewOrGone) {
  Profile after = training();
  after.layers.push_back({.layer = Layer::kStdio, .count = 100, .busy_ns = 2 * kSecond});
  const Comparison comparison = compare(training(), after);
  EXPECT_THAT(described(comparison), ElementsAre("layer stdio: time new"));
  EXPECT_NEAR(comparison.differences.front().effect_ns, 1e9, 1);
  EXPECT_THAT(described(compare(after, training())), ElementsAre("layer stdio: time gone"));
}

TEST(CompareParts, KindsAndExtensionsOfFilesAreCompared) {
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

TEST(CompareParts, OneRankThatIsSlowerThanTheOthersStandsOut) {
  Profile after = training();
  after.time.ranks[1].wait_ns = 6 * kSecond;
  after.time.mean.wait_ns = 3'200 * kMs;
  after.ranks[0].io.bytes_read *= 2;
  EXPECT_THAT(described(compare(training(), after)),
              ElementsAre("rank rank 1: waiting for data slower", "rank rank 0: bytes read more"));
}

TEST(CompareParts, RanksThatFollowTheMeanAreShownOnlyByRank) {
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

TEST(CompareParts, OneEpochThatIsSlowerStandsOut) {
  Profile after = training();
  after.epochs[1].end_ns += 4 * kSecond;
  const Comparison comparison = compare(training(), after);
  EXPECT_THAT(described(comparison), ElementsAre("epoch epoch 1: time slower"));
  EXPECT_DOUBLE_EQ(comparison.differences.front().effect_ns, 4e9);
  // If both epochs are slower, the job is slower, and each epoch is minor.
  after.epochs[0].end_ns += 4 * kSecond;
  EXPECT_THAT(described(compare(training(), after)), IsEmpty());
}

}  // namespace
}  // namespace millrace::report
