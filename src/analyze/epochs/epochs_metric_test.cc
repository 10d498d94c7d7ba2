#include <gtest/gtest.h>

#include <chrono>
#include <optional>

#include "analyze/testing/metric_run.h"
#include "analyze/testing/trace_builder.h"
#include "base/io/temporary_directory.h"

namespace millrace::analyze {
namespace {

using namespace std::chrono_literals;

constexpr uint64_t kMs = 1'000'000;

class EpochsMetricTest : public testing::Test {
 protected:
  void SetUp() override {
    auto made = TemporaryDirectory::create();
    ASSERT_TRUE(made.ok());
    directory_.emplace(*std::move(made));
    job_.emplace((directory_->path() / "t.mrt").string());
  }

  std::vector<EpochStats> epochs() {
    const trace::Trace trace = job_->finish();
    MetricRun run(trace, {make_time_metric, make_epochs_metric});
    EXPECT_TRUE(run.observe({}).ok());
    return run.finish().epochs;
  }

  // Rank 0 in two epochs, with a worker whose calls carry none. The second epoch begins at 20 ms.
  void add_rank() {
    const Program main = job_->program({.rank = 0});
    const Program worker = job_->program({.rank = 0, .parent_pid = main.pid()});
    worker.read("/a", {.at = 0ms, .takes = 4ms, .size = 100});
    worker.region("decode", {.at = 4ms, .takes = 1ms});
    main.region("batch_wait", {.at = 0ms, .takes = 5ms, .epoch = 0, .step = 0});
    main.region("compute", {.at = 5ms, .takes = 5ms, .epoch = 0, .step = 0});
    main.region("batch_wait", {.at = 10ms, .takes = 2ms, .epoch = 0, .step = 1});
    main.region("compute", {.at = 12ms, .takes = 4ms, .epoch = 0, .step = 1});
    worker.open("/b", {.at = 18ms, .takes = 1ms});
    worker.read("/b", {.at = 19ms, .takes = 4ms, .size = 50});  // begins in the first epoch
    main.region("batch_wait", {.at = 20ms, .takes = 4ms, .epoch = 1, .step = 2});
    main.region("compute", {.at = 24ms, .takes = 6ms, .epoch = 1, .step = 2});
    worker.read("/b", {.at = 25ms, .takes = 1ms, .size = 50, .result = -1, .error = 5});
    worker.write("/log", {.at = 27ms, .takes = 1ms, .size = 7});
  }

  std::optional<TemporaryDirectory> directory_;
  std::optional<TraceBuilder> job_;
};

const EpochAction* find(const EpochStats& epoch, std::string_view name) {
  for (const EpochAction& action : epoch.actions) {
    if (action.name == name) return &action;
  }
  return nullptr;
}

TEST_F(EpochsMetricTest, WithoutMarkedEpochsTheListIsEmpty) {
  job_->program({}).read("/a", {.at = 0ms, .takes = 1ms, .size = 1});
  EXPECT_TRUE(epochs().empty());
}

TEST_F(EpochsMetricTest, IoOfWorkersBelongsToTheEpochInWhichItBegan) {
  add_rank();
  const std::vector<EpochStats> found = epochs();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].epoch, 0);
  EXPECT_EQ(found[0].begin_ns, 0u);
  EXPECT_EQ(found[0].end_ns, 20 * kMs);
  EXPECT_EQ(found[0].io.reads, 2u);
  EXPECT_EQ(found[0].io.bytes_read, 150u);
  EXPECT_EQ(found[0].io.read_ns, 8 * kMs);
  EXPECT_EQ(found[0].io.opens, 1u);
  EXPECT_EQ(found[0].io.metadata_ns, 1 * kMs);
  EXPECT_EQ(found[0].io.first_ns, 0u);
  EXPECT_EQ(found[0].io.last_ns, 23 * kMs);
  EXPECT_EQ(found[1].begin_ns, 20 * kMs);
  EXPECT_EQ(found[1].end_ns, 30 * kMs);
  EXPECT_EQ(found[1].io.reads, 1u);
  EXPECT_EQ(found[1].io.bytes_read, 0u);
  EXPECT_EQ(found[1].io.errors, 1u);
  EXPECT_EQ(found[1].io.writes, 1u);
  EXPECT_EQ(found[1].io.bytes_written, 7u);
}

// A threaded loader reads one epoch ahead of the training, and at the end an epoch that is not
// needed.
TEST_F(EpochsMetricTest, AnEpochThatWasOnlyReadAheadIsNotListed) {
  const Program main = job_->program({.rank = 0});
  constexpr uint32_t kLoader = 1;
  for (uint32_t epoch = 0; epoch < 3; ++epoch) {
    const auto at = 10ms * epoch;
    main.region("fetch", {.at = at, .takes = 4ms, .epoch = epoch, .step = 0, .thread = kLoader});
    main.read("/a", {.at = at + 1ms, .takes = 1ms, .size = 100, .thread = kLoader});
  }
  for (uint32_t epoch = 0; epoch < 2; ++epoch) {
    const auto at = 10ms * epoch + 6ms;
    main.region("batch_wait", {.at = at, .takes = 1ms, .epoch = epoch, .step = 0});
    main.region("compute", {.at = at + 1ms, .takes = 8ms, .epoch = epoch, .step = 0});
  }
  const std::vector<EpochStats> found = epochs();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].begin_ns, 6 * kMs);
  EXPECT_EQ(found[1].begin_ns, 16 * kMs);
  EXPECT_EQ(found[1].end_ns, 25 * kMs);
  EXPECT_EQ(found[1].time.wait_ns, 1 * kMs);
  EXPECT_EQ(found[1].time.step_ns, 9 * kMs);
  EXPECT_EQ(found[0].io.bytes_read, 100u);
  EXPECT_EQ(found[1].io.bytes_read, 100u);  // not the bytes at 21 ms, read for an epoch that never
                                            // started
  ASSERT_NE(find(found[1], "fetch"), nullptr);
  EXPECT_EQ(find(found[1], "fetch")->count, 1u);
}

TEST_F(EpochsMetricTest, TimeIsSplitAtEpochBoundaries) {
  add_rank();
  const std::vector<EpochStats> found = epochs();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].steps, 2u);
  EXPECT_EQ(found[0].time.wall_ns, 20 * kMs);
  EXPECT_EQ(found[0].time.compute_ns, 9 * kMs);
  EXPECT_EQ(found[0].time.io_ns, 6 * kMs);  // 0-4, 18-20
  EXPECT_EQ(found[0].time.wait_ns, 7 * kMs);
  EXPECT_EQ(found[0].time.decode_ns, 1 * kMs);
  EXPECT_EQ(found[0].time.step_ns, 16 * kMs);
  EXPECT_DOUBLE_EQ(found[0].time.wait_share, 7.0 / 20.0);
  EXPECT_DOUBLE_EQ(found[0].time.step_wait_share, 7.0 / 16.0);
  EXPECT_EQ(found[0].time.idle_ns, 2 * kMs);  // 16-18
  EXPECT_EQ(found[1].steps, 1u);
  EXPECT_EQ(found[1].time.wall_ns, 10 * kMs);
  EXPECT_EQ(found[1].time.io_ns, 5 * kMs);  // 20-23, 25-26, 27-28
  EXPECT_EQ(found[1].time.io_overlapped_ns, 2 * kMs);
  EXPECT_EQ(found[1].time.wait_ns, 4 * kMs);
}

TEST_F(EpochsMetricTest, ActionsAreAssignedByTheirEpochOrElseByTime) {
  add_rank();
  const std::vector<EpochStats> found = epochs();
  ASSERT_EQ(found.size(), 2u);
  ASSERT_EQ(found[0].actions.size(), 3u);
  EXPECT_EQ(found[0].actions[0].name, "compute");  // the longest first
  EXPECT_EQ(found[0].actions[0].role, Role::kCompute);
  EXPECT_EQ(found[0].actions[0].count, 2u);
  EXPECT_EQ(found[0].actions[0].mean_ns, 9 * kMs);
  ASSERT_NE(find(found[0], "decode"), nullptr);
  EXPECT_EQ(find(found[0], "decode")->mean_ns, 1 * kMs);
  EXPECT_EQ(find(found[1], "decode"), nullptr);
}

TEST_F(EpochsMetricTest, ARankWithoutAnActionSpentNoTimeOnIt) {
  for (int32_t rank = 0; rank < 4; ++rank) {
    const Program program = job_->program({.rank = rank});
    program.region("epoch", {.at = 0ms, .takes = 20ms, .epoch = 3});
    program.region("compute", {.at = 0ms, .takes = 1ms * (rank + 1), .epoch = 3});
    if (rank == 0) program.region("checkpoint", {.at = 10ms, .takes = 8ms, .epoch = 3});
  }
  const std::vector<EpochStats> found = epochs();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].epoch, 3);
  const EpochAction* compute = find(found[0], "compute");
  ASSERT_NE(compute, nullptr);
  EXPECT_EQ(compute->count, 4u);
  EXPECT_EQ(compute->min_ns, 1 * kMs);
  EXPECT_EQ(compute->max_ns, 4 * kMs);
  EXPECT_EQ(compute->mean_ns, 10 * kMs / 4);
  const EpochAction* checkpoint = find(found[0], "checkpoint");
  ASSERT_NE(checkpoint, nullptr);
  EXPECT_EQ(checkpoint->min_ns, 0u);
  EXPECT_EQ(checkpoint->max_ns, 8 * kMs);
  EXPECT_EQ(checkpoint->mean_ns, 2 * kMs);
  EXPECT_EQ(find(found[0], "epoch"), nullptr);  // it is the epoch itself
}

TEST_F(EpochsMetricTest, TwoMergedSharesEqualTheWhole) {
  add_rank();
  const trace::Trace trace = job_->finish();
  ASSERT_EQ(trace.blocks().size(), 2u);
  const std::vector<MetricRun::Maker> makers = {make_time_metric, make_epochs_metric};
  MetricRun whole(trace, makers);
  ASSERT_TRUE(whole.observe({}).ok());
  MetricRun first(trace, makers);
  ASSERT_TRUE(first.observe({.index = 0, .count = 2}).ok());
  MetricRun second(trace, makers);
  ASSERT_TRUE(second.observe({.index = 1, .count = 2}).ok());
  ASSERT_TRUE(second.merge(0, first.save(0)).ok());
  ASSERT_TRUE(second.merge(1, first.save(1)).ok());
  EXPECT_EQ(second.save(1), whole.save(1));
  const Profile a = whole.finish();
  const Profile b = second.finish();
  ASSERT_EQ(b.epochs.size(), a.epochs.size());
  EXPECT_EQ(b.epochs[0].actions.size(), a.epochs[0].actions.size());
  EXPECT_EQ(b.epochs[1].io.bytes_written, a.epochs[1].io.bytes_written);
}

TEST_F(EpochsMetricTest, InvalidSavedBytesAreRejected) {
  add_rank();
  const trace::Trace trace = job_->finish();
  MetricRun run(trace, {make_epochs_metric});
  ASSERT_TRUE(run.observe({}).ok());
  const std::vector<std::byte> saved = run.save(0);
  for (size_t length = 0; length < saved.size(); ++length) {
    ASSERT_FALSE(run.merge(0, ByteView(saved).first(length)).ok()) << length;
  }
  std::vector<std::byte> wrong = saved;
  wrong[wrong.size() - 17] = std::byte{9};  // the last byte of the last action's group
  EXPECT_FALSE(run.merge(0, wrong).ok());
  EXPECT_EQ(run.save(0), saved);
}

}  // namespace
}  // namespace millrace::analyze
