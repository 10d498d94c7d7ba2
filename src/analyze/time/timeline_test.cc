#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <numeric>

#include "analyze/testing/metric_run.h"
#include "analyze/testing/trace_builder.h"
#include "base/io/temporary_directory.h"

namespace millrace::analyze {
namespace {

using std::chrono::nanoseconds;
using testing::Each;
using testing::ElementsAre;
using testing::SizeIs;
using namespace std::chrono_literals;

class TimelineTest : public testing::Test {
 protected:
  TimelineTest() : directory_(*TemporaryDirectory::create()) {}

  TraceBuilder& job() { return job_; }

  const Context& context() {
    if (!trace_) {
      trace_.emplace(job_.finish());
      context_.emplace(make_context(*trace_, {}, problems_));
    }
    return *context_;
  }

  Profile profile(const Limits& limits) {
    return profile_by(context().trace, make_timeline_metric, limits);
  }

 private:
  TemporaryDirectory directory_;
  TraceBuilder job_{directory_.path() / "job.mrt"};
  std::optional<trace::Trace> trace_;
  std::vector<std::string> problems_;
  std::optional<Context> context_;
};

constexpr Limits kTenBins{.timeline_bins = 10, .heat_bins = 10};

uint64_t sum(const std::vector<uint64_t>& list) {
  return std::accumulate(list.begin(), list.end(), uint64_t{0});
}

// A job from 0 to 1000 ns, with a call without bytes at each end.
void span_a_microsecond(const Program& program) {
  program.close("/first", {.at = 0ns, .takes = 0ns});
  program.close("/last", {.at = 1000ns, .takes = 0ns});
}

TEST_F(TimelineTest, SpreadsACallOverTheBinsItCrosses) {
  const Program program = job().program({});
  span_a_microsecond(program);
  program.read("/data/a", {.at = 150ns, .takes = 300ns, .offset = 0, .size = 3000});
  const Timeline timeline = profile(kTenBins).timeline;
  EXPECT_EQ(timeline.bin_ns, 100u);
  EXPECT_THAT(timeline.busy_ns, ElementsAre(0, 50, 100, 100, 50, 0, 0, 0, 0, 0));
  EXPECT_THAT(timeline.bytes_read, ElementsAre(0, 500, 1000, 1000, 500, 0, 0, 0, 0, 0));
  EXPECT_THAT(timeline.bytes_written, Each(0u));
  EXPECT_THAT(timeline.operations, ElementsAre(1, 1, 0, 0, 0, 0, 0, 0, 0, 1));
  EXPECT_THAT(timeline.metadata, ElementsAre(1, 0, 0, 0, 0, 0, 0, 0, 0, 1));
}

TEST_F(TimelineTest, ACallThatEndsWithABinDoesNotTouchTheNext) {
  const Program program = job().program({});
  span_a_microsecond(program);
  program.write("/out", {.at = 200ns, .takes = 100ns, .offset = 0, .size = 7});
  program.write("/out", {.at = 300ns, .takes = 200ns, .offset = 0, .size = 5});
  const Timeline timeline = profile(kTenBins).timeline;
  EXPECT_THAT(timeline.busy_ns, ElementsAre(0, 0, 100, 100, 100, 0, 0, 0, 0, 0));
  EXPECT_THAT(timeline.bytes_written, ElementsAre(0, 0, 7, 2, 3, 0, 0, 0, 0, 0));
}

TEST_F(TimelineTest, KeepsAllBytesOfACallAcrossAThousandBins) {
  const Program program = job().program({});
  program.read("/data/a", {.at = 7ns, .takes = nanoseconds(999'986), .offset = 0, .size = 12345});
  program.close("/first", {.at = 0ns, .takes = 0ns});
  program.close("/last", {.at = 1ms, .takes = 0ns});
  const Timeline timeline = profile({}).timeline;
  ASSERT_THAT(timeline.busy_ns, SizeIs(1000));
  EXPECT_EQ(timeline.busy_ns[0], 993u);
  EXPECT_EQ(timeline.busy_ns[1], 1000u);
  EXPECT_EQ(timeline.busy_ns[998], 1000u);
  EXPECT_EQ(timeline.busy_ns[999], 993u);
  EXPECT_EQ(sum(timeline.busy_ns), 999'986u);
  EXPECT_EQ(timeline.bytes_read[500], 12u);
  EXPECT_EQ(sum(timeline.bytes_read), 12345u);
}

TEST_F(TimelineTest, SumsConcurrentCallsOfThreads) {
  const Program program = job().program({});
  span_a_microsecond(program);
  for (uint32_t thread = 0; thread < 3; ++thread) {
    program.read("/data/a",
                 {.at = 400ns, .takes = 100ns, .offset = 0, .size = 10, .thread = thread});
  }
  const Profile found = profile(kTenBins);
  EXPECT_EQ(found.timeline.busy_ns[4], 300u);  // three calls in flight
  EXPECT_EQ(found.timeline.bytes_read[4], 30u);
  ASSERT_THAT(found.heat.ranks, SizeIs(1));
  EXPECT_EQ(found.heat.ranks[0].io[4], 1000u);  // one rank, busy all the time
}

TEST_F(TimelineTest, CountsALibraryCallAndTheCallWithinItOnce) {
  const Program program = job().program({});
  span_a_microsecond(program);
  program.call(wire::Call::kH5Dread, "/data/a.h5", {.at = 400ns, .takes = 100ns, .size = 64});
  program.read("/data/a.h5", {.at = 410ns, .takes = 50ns, .offset = 0, .size = 80});
  const Profile found = profile(kTenBins);
  EXPECT_EQ(found.timeline.operations[4], 1u);
  EXPECT_EQ(found.timeline.bytes_read[4], 80u);
  EXPECT_EQ(found.timeline.busy_ns[4], 50u);
  EXPECT_EQ(found.heat.ranks[0].io[4], 1000u);  // time in the library is I/O too
}

TEST_F(TimelineTest, FailedCallsAddNoBytes) {
  const Program program = job().program({});
  span_a_microsecond(program);
  program.read("/data/a", {.at = 400ns, .takes = 10ns, .size = 4096, .result = -1, .error = 5});
  const Timeline timeline = profile(kTenBins).timeline;
  EXPECT_EQ(timeline.operations[4], 1u);
  EXPECT_EQ(timeline.metadata[4], 0u);
  EXPECT_EQ(sum(timeline.bytes_read), 0u);
}

TEST_F(TimelineTest, IgnoresRegionsAndProcessControl) {
  const Program program = job().program({});
  span_a_microsecond(program);
  program.region("compute", {.at = 100ns, .takes = 800ns});
  program.call(wire::Call::kFork, "", {.at = 300ns, .takes = 10ns});
  const Timeline timeline = profile(kTenBins).timeline;
  EXPECT_EQ(sum(timeline.operations), 2u);
  EXPECT_EQ(sum(timeline.busy_ns), 0u);
}

TEST_F(TimelineTest, AJobWithoutDurationHasOneBin) {
  const Program program = job().program({});
  program.close("/only", {.at = 5ms, .takes = 0ns});
  const Profile found = profile({});
  EXPECT_THAT(found.timeline.operations, ElementsAre(1));
  EXPECT_THAT(found.timeline.busy_ns, ElementsAre(0));
  EXPECT_THAT(found.heat.ranks[0].io, ElementsAre(0));
}

TEST_F(TimelineTest, AnEmptyTraceHasAnEmptyTimeline) {
  job().program({});
  const Profile found = profile({});
  EXPECT_THAT(found.timeline.operations, ElementsAre(0));
  EXPECT_TRUE(found.stretches.empty());
}

TEST_F(TimelineTest, HeatIsAUnionWithinAThread) {
  const Program program = job().program({});
  span_a_microsecond(program);
  program.region("compute", {.at = 100ns, .takes = 150ns});
  program.region("forward", {.at = 110ns, .takes = 60ns});
  program.region("backward", {.at = 175ns, .takes = 70ns});
  program.region("batch_wait", {.at = 250ns, .takes = 25ns});
  const Profile found = profile(kTenBins);
  ASSERT_THAT(found.heat.ranks, SizeIs(1));
  const RankActivity& rank = found.heat.ranks[0];
  EXPECT_EQ(found.heat.bin_ns, 100u);
  EXPECT_THAT(rank.compute, ElementsAre(0, 1000, 500, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(rank.wait, ElementsAre(0, 0, 250, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(rank.io, Each(0u));
}

TEST_F(TimelineTest, HeatOfTwoProcessesOfARankIsCapped) {
  const Program program = job().program({.rank = 0, .world_size = 1});
  const Program worker = job().program({.rank = 0, .world_size = 1, .parent_pid = program.pid()});
  span_a_microsecond(program);
  program.read("/data/a", {.at = 300ns, .takes = 80ns, .size = 1});
  worker.read("/data/b", {.at = 320ns, .takes = 70ns, .size = 1});
  worker.read("/data/b", {.at = 420ns, .takes = 30ns, .size = 1});
  const Profile found = profile(kTenBins);
  ASSERT_THAT(found.heat.ranks, SizeIs(1));
  EXPECT_EQ(found.heat.ranks[0].io[3], 1000u);
  EXPECT_EQ(found.heat.ranks[0].io[4], 300u);
}

TEST_F(TimelineTest, HeatFillsTheBinsOfALongRegion) {
  const Program program = job().program({});
  span_a_microsecond(program);
  program.region("compute", {.at = 50ns, .takes = 900ns});
  const std::vector<uint16_t> compute = profile(kTenBins).heat.ranks[0].compute;
  EXPECT_THAT(compute, ElementsAre(500, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 500));
}

TEST_F(TimelineTest, HeatShowsEvenlySpacedRanks) {
  for (int32_t rank = 0; rank < 6; ++rank) {
    const Program program = job().program({.rank = rank, .world_size = 6});
    span_a_microsecond(program);
    program.read("/data/a", {.at = 100ns, .takes = nanoseconds(10 * (rank + 1)), .size = 1});
  }
  const Profile found = profile({.timeline_bins = 10, .heat_bins = 10, .heat_ranks = 3});
  ASSERT_THAT(found.heat.ranks, SizeIs(3));
  EXPECT_EQ(found.heat.ranks[0].name, "rank 0");
  EXPECT_EQ(found.heat.ranks[1].name, "rank 2");
  EXPECT_EQ(found.heat.ranks[2].name, "rank 4");
  EXPECT_EQ(found.heat.ranks[2].io[1], 500u);
}

TEST_F(TimelineTest, StretchesAreEpochsAndCheckpointsOfTheMainProcess) {
  const Program program = job().program({.rank = 0, .world_size = 1});
  const Program worker = job().program({.rank = 0, .world_size = 1, .parent_pid = program.pid()});
  span_a_microsecond(program);
  program.region("epoch", {.at = 100ns, .takes = 400ns, .epoch = 7});
  program.region("compute", {.at = 120ns, .takes = 100ns, .epoch = 7, .step = 1});
  program.region("checkpoint", {.at = 400ns, .takes = 50ns});
  program.region("checkpoint", {.at = 450ns, .takes = 0ns});  // nothing to draw
  worker.region("epoch", {.at = 50ns, .takes = 400ns, .epoch = 7});
  const std::vector<Stretch> stretches = profile(kTenBins).stretches;
  ASSERT_THAT(stretches, SizeIs(2));
  EXPECT_EQ(stretches[0].role, Role::kEpoch);
  EXPECT_EQ(stretches[0].name, "epoch");
  EXPECT_EQ(stretches[0].epoch, 7);
  EXPECT_EQ(stretches[0].begin_ns, 100u);
  EXPECT_EQ(stretches[0].end_ns, 500u);
  EXPECT_EQ(stretches[1].role, Role::kCheckpoint);
  EXPECT_EQ(stretches[1].epoch, -1);
  EXPECT_EQ(stretches[1].begin_ns, 400u);
}

TEST_F(TimelineTest, TheShortestStretchesAreCutOff) {
  const Program program = job().program({});
  for (int i = 0; i < 12'000; ++i) {
    program.region("checkpoint", {.at = nanoseconds(20'000 * i), .takes = nanoseconds(i + 1)});
  }
  const std::vector<Stretch> stretches = profile(kTenBins).stretches;
  ASSERT_THAT(stretches, SizeIs(5000));
  EXPECT_EQ(stretches.front().end_ns - stretches.front().begin_ns, 7001u);
  EXPECT_EQ(stretches.back().end_ns - stretches.back().begin_ns, 12'000u);
}

void expect_same(const Profile& a, const Profile& b) {
  EXPECT_EQ(a.timeline.bin_ns, b.timeline.bin_ns);
  EXPECT_EQ(a.timeline.bytes_read, b.timeline.bytes_read);
  EXPECT_EQ(a.timeline.bytes_written, b.timeline.bytes_written);
  EXPECT_EQ(a.timeline.operations, b.timeline.operations);
  EXPECT_EQ(a.timeline.metadata, b.timeline.metadata);
  EXPECT_EQ(a.timeline.busy_ns, b.timeline.busy_ns);
  ASSERT_EQ(a.heat.ranks.size(), b.heat.ranks.size());
  for (size_t i = 0; i < a.heat.ranks.size(); ++i) {
    EXPECT_EQ(a.heat.ranks[i].io, b.heat.ranks[i].io);
    EXPECT_EQ(a.heat.ranks[i].compute, b.heat.ranks[i].compute);
    EXPECT_EQ(a.heat.ranks[i].wait, b.heat.ranks[i].wait);
  }
  ASSERT_EQ(a.stretches.size(), b.stretches.size());
  for (size_t i = 0; i < a.stretches.size(); ++i) {
    EXPECT_EQ(a.stretches[i].begin_ns, b.stretches[i].begin_ns);
    EXPECT_EQ(a.stretches[i].end_ns, b.stretches[i].end_ns);
    EXPECT_EQ(a.stretches[i].rank, b.stretches[i].rank);
  }
}

void make_busy_ranks(TraceBuilder& job) {
  for (int32_t rank = 0; rank < 5; ++rank) {
    const Program program = job.program({.rank = rank, .world_size = 5});
    for (int i = 0; i < 200; ++i) {
      const nanoseconds at(977 * i + 31 * rank);
      program.read("/data/a", {.at = at, .takes = nanoseconds(13 + 700 * (i % 7)), .size = 4099});
      program.region(i % 5 == 0 ? "checkpoint" : "compute", {.at = at, .takes = 640ns});
    }
  }
}

TEST_F(TimelineTest, DoesNotDependOnTheOrderOrSharesOfBlocks) {
  make_busy_ranks(job());
  ASSERT_EQ(context().trace.blocks().size(), 5u);
  const Limits limits{.timeline_bins = 333, .heat_bins = 77};
  const Profile forwards = profile(limits);
  const Profile in_shares = profile_by_shares(context().trace, make_timeline_metric, limits);
  EXPECT_EQ(sum(forwards.timeline.operations), 1000u);
  EXPECT_EQ(sum(forwards.timeline.bytes_read), 1000u * 4099u);
  expect_same(forwards, in_shares);
}

TEST_F(TimelineTest, RejectsInvalidBytes) {
  make_busy_ranks(job());
  MetricRun run(context().trace, {make_timeline_metric}, kTenBins);
  ASSERT_TRUE(run.observe({}).ok());
  const std::vector<std::byte> saved = run.save(0);
  const auto merges = [&](ByteView bytes, const Limits& limits = kTenBins) {
    ByteReader reader(bytes);
    const auto other = make_timeline_metric(context(), limits);
    const bool is_ok = other->merge(reader).ok();
    // A rejected timeline leaves nothing behind.
    Profile profile;
    other->finish(context(), profile);
    EXPECT_EQ(sum(profile.timeline.operations), is_ok ? 1000u : 0u);
    return is_ok;
  };
  EXPECT_TRUE(merges(saved));
  EXPECT_FALSE(merges({}));
  EXPECT_FALSE(merges(saved, {.timeline_bins = 11, .heat_bins = 10}));
  for (size_t length = 0; length < saved.size(); length += 61) {
    EXPECT_FALSE(merges(ByteView(saved).first(length))) << length;
  }
  std::vector<std::byte> garbage(saved.size(), std::byte{0xff});
  EXPECT_FALSE(merges(garbage));
  // The last entry is a stretch, and its name is the last word.
  garbage = saved;
  garbage.back() = std::byte{0x7f};
  EXPECT_FALSE(merges(garbage));
}

}  // namespace
}  // namespace millrace::analyze
