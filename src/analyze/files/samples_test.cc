#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <numeric>
#include <vector>

#include "analyze/testing/metric_run.h"
#include "analyze/testing/trace_builder.h"
#include "base/io/temporary_directory.h"

namespace millrace::analyze {
namespace {

using namespace std::chrono_literals;

class SamplesTest : public testing::Test {
 protected:
  static constexpr uint64_t kMs = 1'000'000;

  SamplesTest() : directory_(*TemporaryDirectory::create()) {}

  // A program reads these samples, one per millisecond.
  static void read_samples(const Program& program, std::chrono::milliseconds at, int64_t epoch,
                           const std::vector<int64_t>& indices) {
    for (size_t i = 0; i < indices.size(); ++i) {
      program.region(
          "read",
          {.at = at + 1ms * i, .takes = 500us, .epoch = epoch, .tags = {{"index", indices[i]}}});
    }
  }

  static std::vector<int64_t> ascending(int64_t first, int64_t count) {
    std::vector<int64_t> indices(static_cast<size_t>(count));
    std::iota(indices.begin(), indices.end(), first);
    return indices;
  }

  Profile profile() { return profile_by(job_.finish(), make_samples_metric); }

  TemporaryDirectory directory_;
  TraceBuilder job_{directory_.path() / "job.mrt"};
};

// A worker fills a buffer with 10 KiB before it gives out the first sample of each epoch.
TEST_F(SamplesTest, TheFirstSampleOfAStreamFillsItsBuffer) {
  const Program program = job_.program({});
  program.region("compute", {.at = 0ms, .takes = 1ms, .epoch = 0, .step = 0});
  const Program worker = job_.program({.parent_pid = program.pid()});
  for (int epoch = 0; epoch < 2; ++epoch) {
    const auto at = 100ms * epoch;
    for (int i = 0; i < 10; ++i) {
      worker.read("/data/a.bin", {.at = at + 1ms * i, .takes = 500us, .size = 1024});
    }
    worker.region("read", {.at = at, .takes = 20ms, .epoch = epoch, .tags = {{"stream", 1}}});
    for (int i = 0; i < 5; ++i) {
      worker.read("/data/a.bin", {.at = at + 30ms + 2ms * i, .takes = 500us, .size = 1024});
      worker.region(
          "read",
          {.at = at + 30ms + 2ms * i, .takes = 1ms, .epoch = epoch, .tags = {{"stream", 1}}});
    }
  }
  const DataUse found = profile().data;
  EXPECT_EQ(found.streams, 2u);
  EXPECT_EQ(found.stream_first_bytes, 10 * 1024u);
  EXPECT_EQ(found.stream_first_ns, 20 * kMs);
}

// A thread reads a sample of a file, whose calls are not those of its stream.
TEST_F(SamplesTest, ReadsOfAnIndexedSampleAreNotOfTheStream) {
  const Program program = job_.program({});
  program.region("compute", {.at = 0ms, .takes = 1ms, .epoch = 0, .step = 0});
  const Program worker = job_.program({.parent_pid = program.pid()});
  worker.read("/data/b.bin", {.at = 101ms, .takes = 500us, .size = 4096});
  worker.region("read", {.at = 100ms, .takes = 5ms, .epoch = 0, .tags = {{"index", 7}}});
  worker.read("/data/a.bin", {.at = 111ms, .takes = 500us, .size = 1024});
  worker.region("read", {.at = 110ms, .takes = 5ms, .epoch = 0, .tags = {{"stream", 1}}});
  EXPECT_EQ(profile().data.stream_first_bytes, 1024u);
}

TEST_F(SamplesTest, AscendingIndicesAreSequentialEvenIfWorkersTakeTurns) {
  const Program program = job_.program({});
  program.region("compute", {.at = 0ms, .takes = 1ms, .epoch = 0, .step = 0});
  for (int w = 0; w < 2; ++w) {
    const Program worker = job_.program({.parent_pid = program.pid()});
    for (int epoch = 0; epoch < 2; ++epoch) {
      for (int batch = 0; batch < 3; ++batch) {
        read_samples(worker, 100ms * epoch + 10ms * batch, epoch, ascending(8 * batch + 4 * w, 4));
      }
    }
  }
  const DataUse found = profile().data;
  EXPECT_EQ(found.samples_indexed, 48u);
  EXPECT_EQ(found.index_ascending, 1.0);
  EXPECT_EQ(found.order, ReadOrder::kSequential);
  EXPECT_EQ(found.order_repeated, 1.0);
}

TEST_F(SamplesTest, AnotherOrderInEachEpochIsShuffled) {
  const Program program = job_.program({});
  read_samples(program, 0ms, 0, {7, 2, 11, 4, 0, 9, 1, 10, 3, 8, 5, 6, 12, 13});
  read_samples(program, 50ms, 1, {3, 12, 1, 6, 5, 13, 0, 8, 2, 11, 10, 4, 9, 7});
  const DataUse found = profile().data;
  EXPECT_EQ(found.order, ReadOrder::kShuffled);
  EXPECT_EQ(found.order_repeated, 0);
  EXPECT_LT(found.index_ascending, 0.7);
}

TEST_F(SamplesTest, TheSameRandomOrderInEachEpochIsFixed) {
  const Program program = job_.program({});
  for (int epoch = 0; epoch < 2; ++epoch) {
    read_samples(program, 50ms * epoch, epoch, {7, 2, 11, 4, 0, 9, 1, 10, 3, 8, 5, 6, 12, 13});
  }
  EXPECT_EQ(profile().data.order, ReadOrder::kFixed);
}

TEST_F(SamplesTest, ShuffledRunsOfSamplesAreNotSequential) {
  const Program program = job_.program({});
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (int run = 0; run < 4; ++run) {
      const int shuffled = (epoch == 0 ? std::array{2, 0, 3, 1} : std::array{3, 1, 2, 0})[run];
      read_samples(program, 200ms * epoch + 30ms * run, epoch, ascending(20 * shuffled, 20));
    }
  }
  EXPECT_EQ(profile().data.order, ReadOrder::kFilesShuffled);
}

TEST_F(SamplesTest, FewOrNoIndicesLeaveTheOrderToTheFiles) {
  const Program program = job_.program({});
  read_samples(program, 0ms, 0, ascending(0, 5));
  program.region("read", {.at = 20ms, .takes = 1ms});
  const DataUse found = profile().data;
  EXPECT_EQ(found.samples_indexed, 5u);
  EXPECT_EQ(found.order, ReadOrder::kUnknown);
}

TEST_F(SamplesTest, ASampleIsCountedOnceAndWithItsRank) {
  for (int32_t rank = 0; rank < 2; ++rank) {
    const Program program = job_.program({.rank = rank});
    program.region("read", {.at = 0ms, .takes = 10ms});
    program.region("read", {.at = 1ms, .takes = 2ms});  // within the other
    if (rank == 1) program.region("read", {.at = 20ms, .takes = 10ms, .tags = {{"samples", 5}}});
  }
  const Profile found = profile_of(job_.finish());
  EXPECT_EQ(found.loading.samples, 7u);
  ASSERT_EQ(found.ranks.size(), 2u);
  EXPECT_EQ(found.ranks[0].samples, 1u);
  EXPECT_EQ(found.ranks[1].samples, 6u);
}

TEST_F(SamplesTest, WorkersOfSeveralEpochsAreNotAliveTogether) {
  const Program program = job_.program({});
  program.region("compute", {.at = 0ms, .takes = 1ms, .epoch = 0, .step = 0});
  program.region("read", {.at = 30ms, .takes = 1ms});  // the thread that trains does not count
  for (int epoch = 0; epoch < 3; ++epoch) {
    for (int i = 0; i < 2; ++i) {
      const Program worker = job_.program({.parent_pid = program.pid()});
      worker.region("fetch", {.at = 100ms * epoch, .takes = 10ms, .epoch = epoch});
    }
  }
  EXPECT_EQ(profile().loading.threads, 2u);
}

TEST_F(SamplesTest, AnEpochStartsWithItsSetupAndFirstWait) {
  const Program program = job_.program({});
  for (int epoch = 0; epoch < 2; ++epoch) {
    const auto at = 100ms * epoch;
    program.region("setup", {.at = at, .takes = epoch == 0 ? 10ms : 4ms, .epoch = epoch});
    program.region("batch_wait", {.at = at + 20ms, .takes = 5ms, .epoch = epoch, .step = 0});
    program.region("compute", {.at = at + 30ms, .takes = 5ms, .epoch = epoch, .step = 0});
    program.region("batch_wait", {.at = at + 40ms, .takes = 9ms, .epoch = epoch, .step = 1});
    program.region("compute", {.at = at + 50ms, .takes = 5ms, .epoch = epoch, .step = 1});
  }
  const Loading found = profile().loading;
  EXPECT_EQ(found.epoch_starts, 2u);
  EXPECT_EQ(found.epoch_starts_ns, 24 * kMs);
  EXPECT_EQ(found.epoch_starts_first_ns, 15 * kMs);
}

TEST_F(SamplesTest, EachEvaluationWithinAnEpochIsAStart) {
  const Program program = job_.program({});
  program.region("setup", {.at = 0ms, .takes = 10ms, .epoch = 0});
  program.region("batch_wait", {.at = 10ms, .takes = 5ms, .epoch = 0, .step = 0});
  program.region("compute", {.at = 20ms, .takes = 5ms, .epoch = 0, .step = 0});
  for (int i = 1; i <= 2; ++i) {
    const auto at = 100ms * i;
    program.region("setup", {.at = at, .takes = 4ms, .epoch = 0});
    program.region("batch_wait", {.at = at + 4ms, .takes = 3ms, .epoch = 0, .step = 0});
  }
  const Loading found = profile().loading;
  EXPECT_EQ(found.epoch_starts, 3u);
  EXPECT_EQ(found.epoch_starts_ns, 29 * kMs);
  EXPECT_EQ(found.epoch_starts_first_ns, 15 * kMs);
}

TEST_F(SamplesTest, TwoMergedSharesEqualTheWhole) {
  for (int32_t rank = 0; rank < 2; ++rank) {
    const Program program = job_.program({.rank = rank});
    program.region("setup", {.at = 0ms, .takes = 2ms, .epoch = 0});
    program.region("batch_wait", {.at = 2ms, .takes = 5ms, .epoch = 0, .step = 0});
    program.region("compute", {.at = 7ms, .takes = 1ms, .epoch = 0, .step = 0});
    const Program worker = job_.program({.rank = rank, .parent_pid = program.pid()});
    read_samples(worker, 0ms, 0, ascending(20 * rank, 20));
  }
  const trace::Trace trace = job_.finish();
  for (const Profile& found :
       {profile_by(trace, make_samples_metric), profile_by_shares(trace, make_samples_metric)}) {
    EXPECT_EQ(found.data.order, ReadOrder::kSequential);
    EXPECT_EQ(found.data.samples_indexed, 40u);
    EXPECT_EQ(found.loading.samples, 40u);
    EXPECT_EQ(found.loading.threads, 1u);
    EXPECT_EQ(found.loading.epoch_starts_ns, 14 * kMs);
  }
  MetricRun run(trace, {make_samples_metric});
  ASSERT_TRUE(run.observe({}).ok());
  const std::vector<std::byte> saved = run.save(0);
  for (size_t length = 0; length < saved.size(); ++length) {
    ASSERT_FALSE(run.merge(0, ByteView(saved).first(length)).ok()) << length;
  }
}

}  // namespace
}  // namespace millrace::analyze
