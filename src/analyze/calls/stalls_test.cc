#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <optional>

#include "analyze/testing/metric_run.h"
#include "analyze/testing/trace_builder.h"
#include "base/io/temporary_directory.h"

namespace millrace::analyze {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using namespace std::chrono_literals;

class StallsTest : public testing::Test {
 protected:
  StallsTest() : directory_(*TemporaryDirectory::create()) {}

  // "in training: stat x20 8 ms of 20 ms in 1 gap, /data, 20 files". A row without a call has
  // neither files nor a directory.
  std::vector<std::string> stalls() {
    const trace::Trace trace = job_.finish();
    const Profile profile = profile_by(trace, make_stalls_metric);
    std::vector<std::string> lines;
    for (const Stall& stall : profile.stalls) {
      std::string line =
          fmt::format("{}: {} x{} {} us of {} us in {}", stall.phase, stall.name, stall.count,
                      stall.time_ns / 1000, stall.stall_ns / 1000, stall.gaps);
      if (stall.files > 0) line += fmt::format(", {} of {}", stall.files, stall.directory);
      if (!stall.region.empty()) line += ", within " + stall.region;
      lines.push_back(line);
    }
    return lines;
  }

  // A step from `at` on: 10 ms of waiting, then 10 ms of compute.
  static void add_step(const Program& program, std::chrono::milliseconds at, int64_t step) {
    program.region("batch_wait", {.at = at, .takes = 10ms, .epoch = 0, .step = step});
    program.region("forward", {.at = at + 10ms, .takes = 10ms, .epoch = 0, .step = step});
  }

  TemporaryDirectory directory_;
  TraceBuilder job_{directory_.path() / "job.mrt"};
};

TEST_F(StallsTest, AGapIsDividedAmongItsCallsByTheirTime) {
  const Program program = job_.program({});
  add_step(program, 0ms, 0);
  program.call(wire::Call::kStat, "/data/a", {.at = 21ms, .takes = 3ms});
  program.call(wire::Call::kStat, "/data/b", {.at = 24ms, .takes = 3ms});
  program.call(wire::Call::kGetdents64, "/data", {.at = 30ms, .takes = 2ms});
  add_step(program, 60ms, 1);
  EXPECT_THAT(stalls(),
              ElementsAre("in training: stat x2 6000 us of 30000 us in 1, 2 of /data",
                          "in training: getdents64 x1 2000 us of 10000 us in 1, 1 of /data"));
}

TEST_F(StallsTest, AFewShortCallsDoNotExplainALongGap) {
  const Program program = job_.program({});
  add_step(program, 0ms, 0);
  program.write("/log", {.at = 21ms, .takes = 1ms, .size = 10});
  add_step(program, 60ms, 1);
  EXPECT_THAT(stalls(), ElementsAre("in training:  x0 0 us of 40000 us in 1",
                                    "in training: pwrite x1 1000 us of 0 us in 1, 1 of /"));
}

TEST_F(StallsTest, ManyShortCallsDo) {
  const Program program = job_.program({});
  add_step(program, 0ms, 0);
  for (int i = 0; i < 20; ++i) {
    program.call(wire::Call::kStat, fmt::format("/data/{}", i),
                 {.at = 21ms + 1ms * i, .takes = 50us});
  }
  add_step(program, 60ms, 1);
  EXPECT_THAT(stalls(), ElementsAre("in training: stat x20 1000 us of 40000 us in 1, 20 of /data"));
}

TEST_F(StallsTest, CallsWithinActivitiesAndWithinOtherCallsDoNotCount) {
  const Program program = job_.program({});
  add_step(program, 0ms, 0);
  program.read("/data/a", {.at = 2ms, .takes = 3ms, .size = 10});
  program.call(wire::Call::kH5Dread, "/a.h5", {.at = 20ms, .takes = 20ms, .size = 10});
  program.read("/a.h5", {.at = 25ms, .takes = 5ms, .size = 10});
  add_step(program, 40ms, 1);
  EXPECT_THAT(stalls(), ElementsAre("in training: H5Dread x1 20000 us of 20000 us in 1, 1 of /"));
}

TEST_F(StallsTest, AFileThatIsOpenWithinComputeStopsIt) {
  const Program program = job_.program({});
  add_step(program, 0ms, 0);
  add_step(program, 20ms, 1);
  program.call(wire::Call::kOpen, "/out/1.txt", {.at = 31ms, .takes = 1ms});
  program.write("/out/1.txt", {.at = 34ms, .takes = 1ms, .size = 10});
  program.call(wire::Call::kClose, "/out/1.txt", {.at = 38ms, .takes = 1ms});
  // One that stays open does not show how long it was in use.
  program.write("/log", {.at = 39ms, .takes = 500us, .size = 10});
  EXPECT_THAT(stalls(), testing::UnorderedElementsAre(
                            testing::StartsWith("in training: open x1 1000 us of 2666 us in 1"),
                            testing::StartsWith("in training: pwrite x1 1000 us of 2666 us in 1"),
                            testing::StartsWith("in training: close x1 1000 us of 2666 us in 1")));
}

TEST_F(StallsTest, AFileThatIsOpenInAGapExplainsThatPartOfIt) {
  const Program program = job_.program({});
  add_step(program, 0ms, 0);
  program.write("/log", {.at = 22ms, .takes = 100us, .size = 10});
  program.call(wire::Call::kH5Fopen, "/out/forecast.h5", {.at = 25ms, .takes = 500us});
  program.call(wire::Call::kClose, "/out/forecast.h5", {.at = 54ms, .takes = 500us});
  add_step(program, 60ms, 1);
  EXPECT_THAT(stalls(), ElementsAre("in training: H5Fopen x1 500 us of 14750 us in 1, 1 of /out",
                                    "in training: close x1 500 us of 14750 us in 1, 1 of /out",
                                    "in training:  x0 0 us of 10500 us in 2",
                                    "in training: pwrite x1 100 us of 0 us in 1, 1 of /"));
}

TEST_F(StallsTest, StateThatIsLoadedBetweenStepsStopsTraining) {
  const Program program = job_.program({});
  program.region("restore", {.at = 0ms, .takes = 10ms});
  program.read("/league/0.pt", {.at = 1ms, .takes = 8ms, .size = 10});
  add_step(program, 20ms, 0);
  program.region("restore", {.at = 40ms, .takes = 20ms});
  program.read("/league/1.pt", {.at = 42ms, .takes = 10ms, .size = 10});
  add_step(program, 60ms, 1);
  EXPECT_THAT(stalls(),
              testing::Contains("in training: pread x1 10000 us of 20000 us in 1, 1 of /league"));
  EXPECT_THAT(stalls(),
              testing::Not(testing::Contains(testing::HasSubstr("before training: pread"))));
}

TEST_F(StallsTest, PhasesFollowFromTheSteps) {
  const Program program = job_.program({});
  program.open("/usr/lib/a.so", {.at = 0ms, .takes = 5ms});
  program.region("setup", {.at = 10ms, .takes = 5ms, .epoch = 0});
  add_step(program, 20ms, 0);
  program.region("checkpoint", {.at = 40ms, .takes = 5ms});
  program.call(wire::Call::kFsync, "/log", {.at = 50ms, .takes = 10ms});
  EXPECT_THAT(stalls(),
              ElementsAre("after training: fsync x1 10000 us of 15000 us in 1, 1 of /",
                          "before training: open x1 5000 us of 10000 us in 1, 1 of /usr/lib",
                          "before training:  x0 0 us of 5000 us in 1"));
}

TEST_F(StallsTest, NamesTheOutermostRegionOfTheUser) {
  const Program program = job_.program({});
  program.region("epoch", {.at = 0ms, .takes = 100ms, .epoch = 0});
  add_step(program, 0ms, 0);
  program.region("rebuild index", {.at = 20ms, .takes = 30ms});
  program.region("inner", {.at = 21ms, .takes = 20ms});
  program.call(wire::Call::kStat, "/data/a", {.at = 22ms, .takes = 10ms});
  add_step(program, 60ms, 1);
  EXPECT_THAT(stalls(), ElementsAre("in training: stat x1 10000 us of 40000 us in 1, 1 of /data, "
                                    "within rebuild index",
                                    "after training:  x0 0 us of 20000 us in 1"));
}

TEST_F(StallsTest, CallsThatCompleteACheckpointBelongToIt) {
  const Program program = job_.program({});
  add_step(program, 0ms, 0);
  program.region("checkpoint", {.at = 20ms, .takes = 10ms});
  program.write("/m.tmp", {.at = 22ms, .takes = 5ms, .size = 100});
  program.call(wire::Call::kFsync, "/m.tmp", {.at = 30ms, .takes = 20ms});
  add_step(program, 50ms, 1);
  EXPECT_THAT(stalls(), IsEmpty());
}

TEST_F(StallsTest, ACheckpointWithoutARegionDividesAGap) {
  const Program program = job_.program({});
  add_step(program, 0ms, 0);
  program.call(wire::Call::kStat, "/data/a", {.at = 20ms, .takes = 10ms});
  program.open("/m.ckpt", {.at = 30ms, .takes = 1ms, .detail = O_WRONLY | O_CREAT});
  program.write("/m.ckpt", {.at = 31ms, .takes = 9ms, .size = 100});
  program.call(wire::Call::kFstat, "/data/a", {.at = 45ms, .takes = 5ms});
  add_step(program, 50ms, 1);
  EXPECT_THAT(stalls(), ElementsAre("in training: fstat x1 5000 us of 10000 us in 1, 1 of /data",
                                    "in training: stat x1 10000 us of 10000 us in 1, 1 of /data"));
}

TEST_F(StallsTest, ImportsDoNotHideWhereTheDataIs) {
  const Program program = job_.program({});
  for (int i = 0; i < 3; ++i) {
    program.call(wire::Call::kStat, fmt::format("/usr/lib/{}.so", i),
                 {.at = 1ms * i, .takes = 1ms});
  }
  program.call(wire::Call::kStat, "/data/a", {.at = 4ms, .takes = 1ms});
  add_step(program, 8ms, 0);
  EXPECT_THAT(stalls(),
              ElementsAre("before training: stat x3 3000 us of 6000 us in 1, 3 of /usr/lib",
                          "before training: stat x1 1000 us of 2000 us in 1, 1 of /data"));
}

TEST_F(StallsTest, OnlyTheThreadThatTrainsCounts) {
  const Program program = job_.program({});
  const Program worker = job_.program({.parent_pid = program.pid()});
  add_step(program, 0ms, 0);
  add_step(program, 20ms, 1);
  program.call(wire::Call::kStat, "/data/a", {.at = 0ms, .takes = 90ms, .thread = 1});
  worker.call(wire::Call::kStat, "/data/a", {.at = 0ms, .takes = 90ms});
  EXPECT_THAT(stalls(), IsEmpty());
}

TEST_F(StallsTest, WithoutComputeRegionsNothingIsKnown) {
  const Program program = job_.program({});
  program.call(wire::Call::kStat, "/data/a", {.at = 0ms, .takes = 90ms});
  program.region("fetch", {.at = 100ms, .takes = 90ms});
  EXPECT_THAT(stalls(), IsEmpty());
}

TEST_F(StallsTest, SharesOfRanksAddUp) {
  for (int32_t rank = 0; rank < 2; ++rank) {
    const Program program = job_.program({.rank = rank});
    add_step(program, 0ms, 0);
    program.call(wire::Call::kStat, "/data/a", {.at = 20ms, .takes = 10ms});
    program.call(wire::Call::kStat, fmt::format("/data/{}", rank), {.at = 30ms, .takes = 10ms});
    add_step(program, 40ms, 1);
  }
  const trace::Trace trace = job_.finish();
  for (const Profile& profile :
       {profile_by(trace, make_stalls_metric), profile_by_shares(trace, make_stalls_metric)}) {
    ASSERT_EQ(profile.stalls.size(), 1u);
    EXPECT_EQ(profile.stalls[0].stall_ns, 40'000'000u);
    EXPECT_EQ(profile.stalls[0].count, 4u);
    EXPECT_EQ(profile.stalls[0].gaps, 2u);
    EXPECT_EQ(profile.stalls[0].files, 3u);
  }
}

TEST_F(StallsTest, CallsWithoutADurationDoNotDivideAGapForever) {
  const Program program = job_.program({});
  add_step(program, 0ms, 0);
  for (int i = 0; i < 3; ++i) {
    const std::string file = fmt::format("/data/{}", i);
    program.open(file, {.at = 20ms + i * 4ms, .takes = 0ms});
    program.call(wire::Call::kClose, file, {.at = 22ms + i * 4ms, .takes = 0ms});
  }
  add_step(program, 40ms, 1);
  const trace::Trace trace = job_.finish();
  const Profile profile = profile_by(trace, make_stalls_metric);
  uint64_t stall_ns = 0;
  uint64_t count = 0;
  for (const Stall& stall : profile.stalls) {
    stall_ns += stall.stall_ns;
    count += stall.count;
  }
  EXPECT_EQ(count, 6u);
  EXPECT_EQ(stall_ns, 20'000'000u);
}

TEST_F(StallsTest, InvalidSavedBytesAreRejected) {
  const Program program = job_.program({});
  add_step(program, 0ms, 0);
  program.call(wire::Call::kStat, "/data/a", {.at = 20ms, .takes = 10ms});
  add_step(program, 40ms, 1);
  const trace::Trace trace = job_.finish();
  MetricRun run(trace, {make_stalls_metric});
  ASSERT_TRUE(run.observe({}).ok());
  const std::vector<std::byte> saved = run.save(0);
  for (size_t length = 0; length < saved.size(); ++length) {
    ASSERT_FALSE(run.merge(0, ByteView(saved).first(length)).ok()) << length;
  }
  const std::vector<std::byte> huge(11, std::byte{0xff});
  EXPECT_FALSE(run.merge(0, huge).ok());
}

}  // namespace
}  // namespace millrace::analyze
