#include <gtest/gtest.h>

#include <chrono>
#include <optional>

#include "analyze/testing/metric_run.h"
#include "analyze/testing/trace_builder.h"
#include "base/io/temporary_directory.h"
#include "base/numbers/random.h"

namespace millrace::analyze {
namespace {

using namespace std::chrono_literals;

constexpr uint64_t kMs = 1'000'000;

class TimeTest : public testing::Test {
 protected:
  void SetUp() override {
    auto made = TemporaryDirectory::create();
    ASSERT_TRUE(made.ok());
    directory_.emplace(*std::move(made));
    job_.emplace((directory_->path() / "t.mrt").string());
  }

  Profile profile(const Limits& limits = {}) {
    const trace::Trace trace = job_->finish();
    MetricRun run(trace, {make_time_metric}, limits);
    EXPECT_TRUE(run.observe({}).ok());
    return run.finish();
  }

  std::optional<TemporaryDirectory> directory_;
  std::optional<TraceBuilder> job_;
};

TEST_F(TimeTest, TwoThreadsThatReadAtOnceCountOnce) {
  const Program program = job_->program({});
  program.read("/a", {.at = 0ms, .takes = 10ms, .size = 1});
  program.read("/b", {.at = 5ms, .takes = 10ms, .size = 1, .thread = 1});
  program.read("/b", {.at = 20ms, .takes = 5ms, .size = 1, .thread = 1});
  const SplitOfTime time = profile().time;
  ASSERT_EQ(time.ranks.size(), 1u);
  EXPECT_EQ(time.ranks[0].io_ns, 20 * kMs);
  EXPECT_EQ(time.ranks[0].wall_ns, 25 * kMs);
  EXPECT_EQ(time.ranks[0].idle_ns, 5 * kMs);
  EXPECT_EQ(time.job.io_ns, 20 * kMs);
  ASSERT_EQ(time.hosts.size(), 1u);
  EXPECT_EQ(time.hosts[0].name, "node1");
  EXPECT_EQ(time.hosts[0].io_ns, 20 * kMs);
  EXPECT_EQ(time.mean.io_ns, 20 * kMs);
}

TEST_F(TimeTest, WithoutRegionsTheMainProcessWaitsWhileItDoesIo) {
  const Program main = job_->program({});
  const Program worker = job_->program({.parent_pid = main.pid()});
  main.read("/a", {.at = 0ms, .takes = 10ms, .size = 1});
  worker.read("/b", {.at = 20ms, .takes = 20ms, .size = 1});
  const SplitOfTime time = profile().time;
  EXPECT_EQ(time.basis, WaitBasis::kIoTime);
  ASSERT_EQ(time.ranks.size(), 1u);
  EXPECT_EQ(time.ranks[0].wait_ns, 10 * kMs);
  EXPECT_EQ(time.ranks[0].io_ns, 30 * kMs);
  EXPECT_EQ(time.ranks[0].step_ns, 0u);
  EXPECT_DOUBLE_EQ(time.ranks[0].wait_share, 0.25);
  EXPECT_EQ(time.ranks[0].compute_ns, 0u);
  EXPECT_EQ(time.ranks[0].io_exposed_ns, 30 * kMs);
}

// The host launches kernels for 2 ms and waits for its next batch; the GPU computes for 7 ms.
TEST_F(TimeTest, TheDevicesTimeIsComputeWhereItIsKnown) {
  const Program program = job_->program({});
  program.region("batch_wait", {.at = 0ms, .takes = 4ms, .epoch = 0, .step = 0});
  program.region("forward", {.at = 4ms, .takes = 2ms, .epoch = 0, .step = 0});
  program.region("device", {.at = 4ms, .takes = 7ms, .epoch = 0, .step = 0, .thread = 1});
  program.region("batch_wait", {.at = 6ms, .takes = 8ms, .epoch = 0, .step = 1});
  program.region("forward", {.at = 14ms, .takes = 2ms, .epoch = 0, .step = 1});
  program.region("device_copy", {.at = 14ms, .takes = 1ms, .epoch = 0, .step = 1, .thread = 1});
  program.region("device", {.at = 15ms, .takes = 7ms, .epoch = 0, .step = 1, .thread = 1});
  const SplitOfTime time = profile().time;
  EXPECT_EQ(time.compute_basis, ComputeBasis::kDevice);
  ASSERT_EQ(time.ranks.size(), 1u);
  const TimeSplit& rank = time.ranks[0];
  EXPECT_EQ(rank.compute_ns, 14 * kMs);
  EXPECT_EQ(rank.launch_ns, 4 * kMs);
  EXPECT_EQ(rank.copy_ns, 1 * kMs);
  EXPECT_EQ(rank.wait_ns, 7 * kMs);             // 0 to 4, and 11 to 14
  EXPECT_EQ(rank.wait_overlapped_ns, 5 * kMs);  // 6 to 11
  EXPECT_EQ(rank.step_ns, 16 * kMs);            // the host's; the device runs behind
  EXPECT_EQ(rank.idle_ns, 0u);
}

TEST_F(TimeTest, HostComputeCountsOutsideOfWhatIsKnownOfTheDevice) {
  const Program first = job_->program({.rank = 0, .world_size = 2});
  first.region("forward", {.at = 0ms, .takes = 5ms});
  first.region("forward", {.at = 10ms, .takes = 5ms});
  first.region("device", {.at = 10ms, .takes = 20ms, .thread = 1});
  const Program second = job_->program({.rank = 1, .world_size = 2});
  second.region("forward", {.at = 0ms, .takes = 5ms});
  const SplitOfTime time = profile().time;
  EXPECT_EQ(time.compute_basis, ComputeBasis::kBoth);
  ASSERT_EQ(time.ranks.size(), 2u);
  EXPECT_EQ(time.ranks[0].compute_ns, 25 * kMs);
  EXPECT_EQ(time.ranks[0].launch_ns, 5 * kMs);
  EXPECT_EQ(time.ranks[1].compute_ns, 5 * kMs);
}

TEST_F(TimeTest, ComputeAloneGivesNoBasisForWaiting) {
  job_->program({}).region("compute", {.at = 0ms, .takes = 10ms});
  const SplitOfTime time = profile().time;
  EXPECT_EQ(time.basis, WaitBasis::kNone);
  EXPECT_EQ(time.job.compute_ns, 10 * kMs);
  EXPECT_EQ(time.job.wait_ns, 0u);
  EXPECT_EQ(time.job.idle_ns, 0u);
}

TEST_F(TimeTest, IoWhileTheRankComputesIsOverlapped) {
  const Program main = job_->program({.rank = 0, .world_size = 1});
  const Program worker = job_->program({.rank = 0, .world_size = 1, .parent_pid = main.pid()});
  main.region("batch_wait", {.at = 0ms, .takes = 4ms, .epoch = 0, .step = 0});
  main.region("compute", {.at = 4ms, .takes = 10ms, .epoch = 0, .step = 0});
  worker.read("/a", {.at = 1ms, .takes = 6ms, .size = 1});   // 3 ms before compute, 3 ms within
  worker.read("/b", {.at = 12ms, .takes = 4ms, .size = 1});  // 2 ms within compute, 2 ms after
  worker.region("fetch", {.at = 1ms, .takes = 16ms});        // around both
  worker.region("decode", {.at = 16ms, .takes = 1ms});
  const SplitOfTime time = profile().time;
  EXPECT_EQ(time.basis, WaitBasis::kRegions);
  ASSERT_EQ(time.ranks.size(), 1u);
  const TimeSplit& rank = time.ranks[0];
  EXPECT_EQ(rank.name, "rank 0");
  EXPECT_EQ(rank.wall_ns, 17 * kMs);
  EXPECT_EQ(rank.compute_ns, 10 * kMs);
  EXPECT_EQ(rank.io_ns, 10 * kMs);
  EXPECT_EQ(rank.io_overlapped_ns, 5 * kMs);
  EXPECT_EQ(rank.io_exposed_ns, 5 * kMs);
  EXPECT_EQ(rank.compute_exposed_ns, 5 * kMs);
  EXPECT_EQ(rank.fetch_ns, 16 * kMs);
  EXPECT_EQ(rank.decode_ns, 1 * kMs);
  EXPECT_EQ(rank.transform_ns, 0u);
  EXPECT_EQ(rank.fetch_exposed_ns, 6 * kMs);
  EXPECT_EQ(rank.wait_ns, 4 * kMs);
  EXPECT_EQ(rank.step_ns, 14 * kMs);
  EXPECT_EQ(rank.startup_ns, 0u);
  EXPECT_EQ(rank.training_ns, 14 * kMs);
  EXPECT_DOUBLE_EQ(rank.wait_share, 4.0 / 14.0);
  EXPECT_DOUBLE_EQ(rank.step_wait_share, 4.0 / 14.0);
  EXPECT_EQ(rank.idle_ns, 0u);
}

TEST_F(TimeTest, DecodingAndTransformingAreTimesOfTheirOwn) {
  const Program program = job_->program({});
  program.region("decode", {.at = 0ms, .takes = 4ms});
  program.region("decompress", {.at = 3ms, .takes = 3ms});
  program.region("parse", {.at = 8ms, .takes = 1ms});
  program.region("transform", {.at = 10ms, .takes = 5ms});
  program.region("collate", {.at = 14ms, .takes = 4ms});
  program.region("compute", {.at = 16ms, .takes = 4ms, .thread = 1});
  const TimeSplit job = profile().time.job;
  EXPECT_EQ(job.decode_ns, 7 * kMs);
  EXPECT_EQ(job.transform_ns, 8 * kMs);
  EXPECT_EQ(job.fetch_exposed_ns, 13 * kMs);
  EXPECT_EQ(job.idle_ns, 3 * kMs);  // 6-8, 9-10
}

TEST_F(TimeTest, AFetchOnTheThreadThatComputesIsWaiting) {
  const Program program = job_->program({});
  program.region("fetch", {.at = 0ms, .takes = 6ms});
  program.region("read", {.at = 1ms, .takes = 3ms});
  program.region("compute", {.at = 6ms, .takes = 2ms});
  program.region("fetch", {.at = 0ms, .takes = 8ms, .thread = 1});  // on a thread that does not
                                                                    // compute
  const SplitOfTime time = profile().time;
  EXPECT_EQ(time.basis, WaitBasis::kRegions);
  EXPECT_EQ(time.job.wait_ns, 6 * kMs);
  EXPECT_DOUBLE_EQ(time.job.wait_share, 0.75);
  EXPECT_EQ(time.job.fetch_ns, 8 * kMs);
}

TEST_F(TimeTest, NestedRegionsOfOneRoleCountOnce) {
  const Program program = job_->program({});
  program.region("checkpoint", {.at = 0ms, .takes = 10ms});
  program.region("checkpoint", {.at = 2ms, .takes = 3ms});
  program.region("restore", {.at = 9ms, .takes = 3ms});
  program.region("communicate", {.at = 20ms, .takes = 1ms});
  program.region("evaluate", {.at = 30ms, .takes = 2ms});
  const TimeSplit job = profile().time.job;
  EXPECT_EQ(job.checkpoint_ns, 12 * kMs);
  EXPECT_EQ(job.communicate_ns, 1 * kMs);
  EXPECT_EQ(job.compute_ns, 2 * kMs);
  EXPECT_EQ(job.idle_ns, 17 * kMs);
}

TEST_F(TimeTest, RanksHostsAndTheJobEachHaveTheirOwnUnion) {
  const Program rank0 = job_->program({.rank = 0, .world_size = 3, .host = "node1"});
  const Program rank1 = job_->program({.rank = 1, .world_size = 3, .host = "node1"});
  const Program rank2 = job_->program({.rank = 2, .world_size = 3, .host = "node2"});
  rank0.read("/a", {.at = 0ms, .takes = 10ms, .size = 1});
  rank1.read("/a", {.at = 5ms, .takes = 10ms, .size = 1});
  rank2.read("/a", {.at = 14ms, .takes = 10ms, .size = 1});
  rank2.region("compute", {.at = 0ms, .takes = 6ms});
  const SplitOfTime time = profile().time;
  ASSERT_EQ(time.ranks.size(), 3u);
  for (const TimeSplit& rank : time.ranks) EXPECT_EQ(rank.io_ns, 10 * kMs) << rank.name;
  ASSERT_EQ(time.hosts.size(), 2u);
  EXPECT_EQ(time.hosts[0].io_ns, 15 * kMs);
  EXPECT_EQ(time.hosts[0].wall_ns, 15 * kMs);
  EXPECT_EQ(time.hosts[0].io_overlapped_ns, 0u);
  EXPECT_EQ(time.hosts[1].io_ns, 10 * kMs);
  EXPECT_EQ(time.hosts[1].wall_ns, 24 * kMs);
  EXPECT_EQ(time.job.io_ns, 24 * kMs);
  EXPECT_EQ(time.job.io_overlapped_ns, 6 * kMs);
  EXPECT_EQ(time.mean.io_ns, 10 * kMs);
  EXPECT_EQ(time.mean.compute_ns, 2 * kMs);
  EXPECT_EQ(time.mean.wall_ns, (10 + 10 + 24) * kMs / 3);
}

TEST_F(TimeTest, WithOneRankPerHostTheJobIsStillTheUnionOfAll) {
  job_->program({.rank = 0, .host = "node1"}).read("/a", {.at = 0ms, .takes = 4ms, .size = 1});
  job_->program({.rank = 1, .host = "node2"}).read("/a", {.at = 2ms, .takes = 4ms, .size = 1});
  const SplitOfTime time = profile().time;
  ASSERT_EQ(time.hosts.size(), 2u);
  EXPECT_EQ(time.hosts[0].io_ns, 4 * kMs);
  EXPECT_EQ(time.hosts[1].io_ns, 4 * kMs);
  EXPECT_EQ(time.job.io_ns, 6 * kMs);
}

TEST_F(TimeTest, EventsWithoutLengthTakeNoTime) {
  const Program program = job_->program({});
  program.read("/a", {.at = 1ms, .takes = 0ms, .size = 1});
  program.region("compute", {.at = 2ms, .takes = 0ms});
  program.call(wire::Call::kMark, "here", {.at = 3ms, .takes = 0ms});
  const SplitOfTime time = profile().time;
  EXPECT_EQ(time.job.io_ns, 0u);
  EXPECT_EQ(time.job.compute_ns, 0u);
  EXPECT_EQ(time.basis, WaitBasis::kNone);
  EXPECT_EQ(time.job.wait_share, 0);
}

TEST_F(TimeTest, EachLayerHasItsOwnBusyAndOverlappedTime) {
  const Program program = job_->program({});
  program.call(wire::Call::kFread, "/a", {.at = 0ms, .takes = 10ms, .size = 1});
  program.read("/a", {.at = 2ms, .takes = 4ms, .size = 1});
  program.region("compute", {.at = 4ms, .takes = 4ms, .thread = 1});
  const trace::Trace trace = job_->finish();
  MetricRun run(trace, {make_time_metric});
  ASSERT_TRUE(run.observe({}).ok());
  Profile before;
  for (const Layer layer : {Layer::kApplication, Layer::kStdio, Layer::kPosix}) {
    before.layers.push_back({.layer = layer});
  }
  const Profile profile = run.finish(before);
  EXPECT_EQ(profile.layers[0].busy_ns, 4 * kMs);
  EXPECT_EQ(profile.layers[0].overlapped_ns, 4 * kMs);
  EXPECT_EQ(profile.layers[1].busy_ns, 10 * kMs);
  EXPECT_EQ(profile.layers[1].overlapped_ns, 4 * kMs);
  EXPECT_EQ(profile.layers[2].busy_ns, 4 * kMs);
  EXPECT_EQ(profile.layers[2].overlapped_ns, 2 * kMs);
  EXPECT_EQ(profile.time.job.io_ns, 10 * kMs);
}

TEST_F(TimeTest, WithoutStepNumbersRegionsAroundStepsCount) {
  const Program program = job_->program({});
  program.region("step", {.at = 0ms, .takes = 10ms});
  program.region("batch_wait", {.at = 0ms, .takes = 4ms});
  program.region("compute", {.at = 4ms, .takes = 6ms});
  program.region("batch_wait", {.at = 15ms, .takes = 5ms});  // outside the step
  const TimeSplit job = profile().time.job;
  EXPECT_EQ(job.step_ns, 10 * kMs);
  EXPECT_EQ(job.wait_ns, 9 * kMs);
  EXPECT_DOUBLE_EQ(job.wait_share, 9.0 / 20.0);
  EXPECT_DOUBLE_EQ(job.step_wait_share, 0.4);
}

TEST_F(TimeTest, WaitingIsAShareOfTrainingNotOfTheStart) {
  const Program quick = job_->program({.rank = 0, .world_size = 2});
  const Program slow = job_->program({.rank = 1, .world_size = 2});
  for (const auto& [program, start] : {std::pair{quick, 60ms}, std::pair{slow, 80ms}}) {
    program.read("/index", {.at = 0ms, .takes = 1ms, .size = 1});
    program.region("decode", {.at = 1ms, .takes = 30ms});  // samples that are prepared before
    program.region("batch_wait", {.at = start, .takes = 3ms, .epoch = 0, .step = 0});
    program.region("compute", {.at = start + 3ms, .takes = 1ms, .epoch = 0, .step = 0});
    program.region("batch_wait", {.at = start + 6ms, .takes = 3ms, .epoch = 0, .step = 1});
    program.region("compute", {.at = start + 9ms, .takes = 1ms, .epoch = 0, .step = 1});
    program.read("/result", {.at = start + 15ms, .takes = 5ms, .size = 1});
  }
  const SplitOfTime time = profile().time;
  EXPECT_EQ(time.ranks[0].startup_ns, 60 * kMs);
  EXPECT_EQ(time.ranks[1].startup_ns, 80 * kMs);
  EXPECT_EQ(time.mean.startup_ns, 70 * kMs);
  EXPECT_EQ(time.job.startup_ns, 60 * kMs);
  for (const TimeSplit* split : {&time.ranks[0], &time.ranks[1], &time.mean}) {
    EXPECT_EQ(split->training_ns, 10 * kMs) << split->name;
    EXPECT_DOUBLE_EQ(split->wait_share, 0.6) << split->name;
  }
  EXPECT_EQ(time.job.training_ns, 20 * kMs);  // one after the other
  EXPECT_DOUBLE_EQ(time.job.wait_share, 0.6);
  EXPECT_EQ(time.hosts[0].training_ns, 20 * kMs);
}

TEST_F(TimeTest, StepsReportTheirWaiting) {
  const Program program = job_->program({.rank = 0});
  program.region("batch_wait", {.at = 0ms, .takes = 5ms, .epoch = 0, .step = 0});
  program.region("compute", {.at = 5ms, .takes = 5ms, .epoch = 0, .step = 0});
  program.region("batch_wait", {.at = 12ms, .takes = 1ms, .epoch = 0, .step = 1});
  program.region("compute", {.at = 13ms, .takes = 17ms, .epoch = 0, .step = 1});
  const Steps steps = profile({.slowest_steps = 1, .all_steps = true}).steps;
  ASSERT_EQ(steps.all.size(), 2u);
  EXPECT_EQ(steps.all[0].step, 0);
  EXPECT_EQ(steps.all[0].begin_ns, 0u);
  EXPECT_EQ(steps.all[0].duration_ns, 10 * kMs);
  EXPECT_EQ(steps.all[0].wait_ns, 5 * kMs);
  EXPECT_EQ(steps.all[1].step, 1);
  EXPECT_EQ(steps.all[1].duration_ns, 18 * kMs);
  EXPECT_EQ(steps.all[1].wait_ns, 1 * kMs);
  ASSERT_EQ(steps.slowest.size(), 1u);
  EXPECT_EQ(steps.slowest[0].step, 1);
  EXPECT_EQ(steps.duration_ns.count, 2u);
  EXPECT_EQ(steps.duration_ns.median, 10 * kMs);
  EXPECT_EQ(steps.duration_ns.max, 18 * kMs);
  EXPECT_EQ(steps.wait_ns.sum, 6 * kMs);
}

TEST_F(TimeTest, WithoutWaitRegionsStepsWaitDuringIoOfTheMainProcess) {
  const Program program = job_->program({.rank = 0});
  program.read("/a", {.at = 0ms, .takes = 2ms, .size = 1});  // before any step
  program.region("compute", {.at = 2ms, .takes = 5ms, .epoch = 0, .step = 0});
  program.read("/a", {.at = 3ms, .takes = 1ms, .size = 1, .thread = 1});  // overlapped
  program.read("/a", {.at = 7ms, .takes = 3ms, .size = 1});
  program.region("copy", {.at = 10ms, .takes = 1ms, .epoch = 0, .step = 0});
  const Profile found = profile({.all_steps = true});
  EXPECT_EQ(found.time.basis, WaitBasis::kIoTime);
  EXPECT_EQ(found.time.job.wait_ns, 5 * kMs);
  EXPECT_EQ(found.time.job.step_ns, 9 * kMs);
  EXPECT_DOUBLE_EQ(found.time.job.wait_share, 3.0 / 9.0);
  EXPECT_DOUBLE_EQ(found.time.job.step_wait_share, 3.0 / 9.0);
  ASSERT_EQ(found.steps.all.size(), 1u);
  EXPECT_EQ(found.steps.all[0].wait_ns, 3 * kMs);
}

// What a rank, a host or the job did in each nanosecond.
struct Sweep {
  explicit Sweep(size_t length) : of(length, 0) {}
  void mark(uint64_t begin, uint64_t end, uint32_t bits) {
    for (uint64_t t = begin; t < end; ++t) of[t] |= bits;
  }
  void join(const Sweep& other) {
    for (size_t t = 0; t < of.size(); ++t) of[t] |= other.of[t];
  }
  template <typename Is>
  uint64_t count(Is is) const {
    return static_cast<uint64_t>(std::count_if(of.begin(), of.end(), is));
  }
  std::vector<uint32_t> of;
};

enum Bit : uint32_t { kIoBit = 1, kComputeBit = 2, kFetchBit = 4, kDecodeBit = 8, kWaitBit = 16 };

void expect_same(const TimeSplit& split, const Sweep& sweep) {
  const auto has = [](uint32_t bits) { return [bits](uint32_t at) { return (at & bits) != 0; }; };
  const auto without_compute = [](uint32_t bits) {
    return [bits](uint32_t at) { return (at & bits) != 0 && (at & kComputeBit) == 0; };
  };
  EXPECT_EQ(split.io_ns, sweep.count(has(kIoBit))) << split.name;
  EXPECT_EQ(split.compute_ns, sweep.count(has(kComputeBit))) << split.name;
  EXPECT_EQ(split.fetch_ns, sweep.count(has(kFetchBit))) << split.name;
  EXPECT_EQ(split.decode_ns, sweep.count(has(kDecodeBit))) << split.name;
  EXPECT_EQ(split.wait_ns, sweep.count(has(kWaitBit))) << split.name;
  EXPECT_EQ(split.io_exposed_ns, sweep.count(without_compute(kIoBit))) << split.name;
  EXPECT_EQ(split.io_overlapped_ns + split.io_exposed_ns, split.io_ns) << split.name;
  EXPECT_EQ(split.compute_exposed_ns, sweep.count([](uint32_t at) {
    return (at & kComputeBit) != 0 && (at & kIoBit) == 0;
  })) << split.name;
  EXPECT_EQ(split.fetch_exposed_ns, sweep.count(without_compute(kFetchBit | kDecodeBit)))
      << split.name;
  EXPECT_EQ(split.wall_ns - split.idle_ns, sweep.count(has(31))) << split.name;
}

struct Kind {
  std::string_view name;
  uint32_t bits;
};
constexpr Kind kKinds[] = {
    {"", kIoBit},        {"", kIoBit},           {"compute", kComputeBit}, {"fetch", kFetchBit},
    {"read", kFetchBit}, {"decode", kDecodeBit}, {"batch_wait", kWaitBit}};

TEST_F(TimeTest, AgreesWithASweepOfEveryNanosecond) {
  constexpr uint64_t kLength = 20'000;
  Random random(11);
  std::vector<Sweep> ranks(4, Sweep(kLength));
  for (uint32_t rank = 0; rank < 4; ++rank) {
    const std::string host = rank < 3 ? "node1" : "node2";
    uint32_t parent = 1;
    for (int process = 0; process < 3; ++process) {
      const Program program =
          job_->program({.rank = static_cast<int32_t>(rank), .host = host, .parent_pid = parent});
      if (process == 0) parent = program.pid();
      for (int i = 0; i < 60; ++i) {
        const Kind& kind = kKinds[random.below(std::size(kKinds))];
        const uint64_t begin = random.below(kLength - 400);
        const uint64_t length = random.below(i % 10 == 0 ? 400 : 60);
        const EventSpec spec{.at = std::chrono::nanoseconds(begin),
                             .takes = std::chrono::nanoseconds(length),
                             .size = 1,
                             .thread = static_cast<uint32_t>(random.below(3))};
        ranks[rank].mark(begin, begin + length, kind.bits);
        if (kind.name.empty()) {
          program.read("/data", spec);
        } else {
          program.region(kind.name, spec);
        }
      }
    }
  }
  const SplitOfTime time = profile().time;
  ASSERT_EQ(time.ranks.size(), 4u);
  for (size_t i = 0; i < 4; ++i) expect_same(time.ranks[i], ranks[i]);
  Sweep node1 = ranks[0];
  node1.join(ranks[1]);
  node1.join(ranks[2]);
  ASSERT_EQ(time.hosts.size(), 2u);
  expect_same(time.hosts[0], node1);
  expect_same(time.hosts[1], ranks[3]);
  node1.join(ranks[3]);
  expect_same(time.job, node1);
}

// Enough events for several blocks, slices and batches.
void add_many_events(TraceBuilder& job) {
  Random random(3);
  for (int32_t rank = 0; rank < 2; ++rank) {
    const Program program = job.program({.rank = rank});
    uint64_t at = 0;
    for (int64_t step = 0; step < 20'000; ++step) {
      const auto begin = [&] { return std::chrono::nanoseconds(at); };
      const auto takes = [&](uint64_t ns) { return std::chrono::nanoseconds(ns); };
      const uint64_t wait = random.below(900);
      program.region("batch_wait",
                     {.at = begin(), .takes = takes(wait), .epoch = step / 7000, .step = step});
      program.read("/a", {.at = begin(), .takes = takes(wait / 2), .size = 10});
      at += wait + 10;
      program.read("/a", {.at = begin(), .takes = takes(5), .size = 10, .thread = 1});
      program.region("compute",
                     {.at = begin(), .takes = takes(300), .epoch = step / 7000, .step = step});
      at += 310 + random.below(50);
    }
  }
}

void expect_equal(const TimeSplit& a, const TimeSplit& b) {
  EXPECT_EQ(a.wall_ns, b.wall_ns);
  EXPECT_EQ(a.compute_ns, b.compute_ns);
  EXPECT_EQ(a.io_ns, b.io_ns);
  EXPECT_EQ(a.wait_ns, b.wait_ns);
  EXPECT_EQ(a.io_overlapped_ns, b.io_overlapped_ns);
  EXPECT_EQ(a.idle_ns, b.idle_ns);
  EXPECT_EQ(a.step_ns, b.step_ns);
  EXPECT_EQ(a.wait_share, b.wait_share);
  EXPECT_EQ(a.step_wait_share, b.step_wait_share);
}

TEST_F(TimeTest, TwoMergedSharesEqualTheWhole) {
  add_many_events(*job_);
  const trace::Trace trace = job_->finish();
  ASSERT_GE(trace.blocks().size(), 2u);
  MetricRun whole(trace, {make_time_metric}, {.all_steps = true});
  ASSERT_TRUE(whole.observe({}).ok());
  MetricRun first(trace, {make_time_metric}, {.all_steps = true});
  ASSERT_TRUE(first.observe({.index = 1, .count = 2}, /*backwards=*/true).ok());
  MetricRun second(trace, {make_time_metric});
  ASSERT_TRUE(second.observe({.index = 0, .count = 2}).ok());
  ASSERT_TRUE(first.merge(0, second.save(0)).ok());
  const Profile a = whole.finish();
  const Profile b = first.finish();
  expect_equal(a.time.job, b.time.job);
  expect_equal(a.time.mean, b.time.mean);
  ASSERT_EQ(a.epochs.size(), 3u);
  ASSERT_EQ(b.epochs.size(), 3u);
  for (size_t i = 0; i < 3; ++i) expect_equal(a.epochs[i].time, b.epochs[i].time);
  ASSERT_EQ(a.steps.all.size(), b.steps.all.size());
  uint64_t wait_ns = 0;
  for (size_t i = 0; i < a.steps.all.size(); ++i) {
    ASSERT_EQ(a.steps.all[i].wait_ns, b.steps.all[i].wait_ns) << i;
    wait_ns += a.steps.all[i].wait_ns;
  }
  // All waiting is within steps: what slices cut apart is joined again.
  EXPECT_EQ(wait_ns, a.time.ranks[0].wait_ns + a.time.ranks[1].wait_ns);
  // Each is the rounded mean of two ranks.
  EXPECT_NEAR(static_cast<double>(a.epochs[0].time.step_ns + a.epochs[1].time.step_ns +
                                  a.epochs[2].time.step_ns),
              static_cast<double>(a.time.mean.step_ns), 3);
}

TEST_F(TimeTest, SavedTimesOfAnotherTraceAreRejected) {
  job_->program({}).read("/a", {.at = 0ms, .takes = 1ms, .size = 1});
  const trace::Trace trace = job_->finish();
  MetricRun run(trace, {make_time_metric});
  ASSERT_TRUE(run.observe({}).ok());
  const std::vector<std::byte> saved = run.save(0);
  for (size_t length = 0; length < saved.size(); ++length) {
    EXPECT_FALSE(run.merge(0, ByteView(saved).first(length)).ok()) << length;
  }
  std::vector<std::byte> other_rank = saved;
  other_rank[1] = std::byte{0x67};  // the tag: group 3
  EXPECT_FALSE(run.merge(0, other_rank).ok());
  EXPECT_EQ(run.finish().time.job.io_ns, 1 * kMs);
}

}  // namespace
}  // namespace millrace::analyze
