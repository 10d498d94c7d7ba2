#include <fcntl.h>
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

class CheckpointsTest : public testing::Test {
 protected:
  void SetUp() override {
    auto made = TemporaryDirectory::create();
    ASSERT_TRUE(made.ok());
    directory_.emplace(*std::move(made));
    job_.emplace((directory_->path() / "t.mrt").string());
  }

  std::vector<Checkpoint> checkpoints() {
    const trace::Trace trace = job_->finish();
    MetricRun run(trace, {make_checkpoints_metric});
    EXPECT_TRUE(run.observe({}).ok());
    return run.finish().checkpoints;
  }

  // Four ranks compute until 10 ms. Then rank 0 saves until 30 ms, and rank 3 computes until 14 ms.
  void add_one_of_four() {
    for (int32_t rank = 0; rank < 4; ++rank) {
      const Program program = job_->program({.rank = rank, .world_size = 4});
      program.region("compute", {.at = 0ms, .takes = rank == 3 ? 14ms : 10ms, .epoch = 2});
      program.region("compute", {.at = 28ms, .takes = 5ms, .epoch = 2});
      if (rank != 0) continue;
      program.write("/log", {.at = 5ms, .takes = 1ms, .size = 999});  // before the checkpoint
      program.region("checkpoint", {.at = 10ms, .takes = 20ms, .epoch = 2});
      program.write("/out/model.pt", {.at = 11ms, .takes = 5ms, .size = 4000});
      program.write("/out/model.pt", {.at = 17ms, .takes = 5ms, .size = 4000});
      program.write("/out/meta.json", {.at = 23ms, .takes = 1ms, .size = 10});
      program.write("/out/meta.json",
                    {.at = 25ms, .takes = 1ms, .size = 10, .result = -1, .error = 28});
    }
  }

  std::optional<TemporaryDirectory> directory_;
  std::optional<TraceBuilder> job_;
};

TEST_F(CheckpointsTest, WithoutRegionsThereAreNoCheckpoints) {
  job_->program({}).write("/model.pt", {.at = 0ms, .takes = 1ms, .size = 1});
  EXPECT_TRUE(checkpoints().empty());
}

TEST_F(CheckpointsTest, OneRankOfFourWritesWhileTheOthersWait) {
  add_one_of_four();
  const std::vector<Checkpoint> found = checkpoints();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].epoch, 2);
  EXPECT_EQ(found[0].begin_ns, 10 * kMs);
  EXPECT_EQ(found[0].end_ns, 30 * kMs);
  EXPECT_EQ(found[0].ranks_writing, 1u);
  EXPECT_EQ(found[0].bytes, 8010u);
  EXPECT_EQ(found[0].writes, 4u);
  EXPECT_EQ(found[0].stalled_ns, 14 * kMs);  // from 14 to 28
  EXPECT_EQ(found[0].file, "/out/model.pt");
}

TEST_F(CheckpointsTest, OverlappingRegionsOfRanksAreOneCheckpoint) {
  for (int32_t rank = 0; rank < 3; ++rank) {
    const Program program = job_->program({.rank = rank});
    program.region("checkpoint", {.at = 10ms + 2ms * rank, .takes = 3ms});
    program.write("/part", {.at = 11ms + 2ms * rank, .takes = 1ms, .size = 5});
    program.region("checkpoint", {.at = 50ms, .takes = 1ms});
  }
  const std::vector<Checkpoint> found = checkpoints();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].ranks_writing, 3u);
  EXPECT_EQ(found[0].bytes, 15u);
  EXPECT_EQ(found[0].end_ns - found[0].begin_ns, 7 * kMs);
  EXPECT_EQ(found[0].epoch, -1);
  EXPECT_EQ(found[1].ranks_writing, 0u);
  EXPECT_EQ(found[1].writes, 0u);
  EXPECT_EQ(found[1].file, "");
}

TEST_F(CheckpointsTest, RegionsOfTheSameStepAreOneCheckpointEvenIfApart) {
  const Program rank0 = job_->program({.rank = 0});
  const Program rank1 = job_->program({.rank = 1});
  rank0.region("checkpoint", {.at = 0ms, .takes = 2ms, .epoch = 0, .step = 10});
  rank1.region("checkpoint", {.at = 5ms, .takes = 2ms, .epoch = 0, .step = 10});
  rank0.region("checkpoint", {.at = 6ms, .takes = 2ms, .epoch = 0, .step = 11});
  const std::vector<Checkpoint> found = checkpoints();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].end_ns, 7 * kMs);
  EXPECT_EQ(found[1].begin_ns, 6 * kMs);
}

TEST_F(CheckpointsTest, InAnEpochTheFirstRegionsOfAllRanksAreOneCheckpoint) {
  for (int32_t rank = 0; rank < 2; ++rank) {
    const Program program = job_->program({.rank = rank});
    program.region("checkpoint", {.at = 0ms + 3ms * rank, .takes = 2ms, .epoch = 1});
    program.region("checkpoint", {.at = 20ms + 3ms * rank, .takes = 2ms, .epoch = 1});
  }
  const std::vector<Checkpoint> found = checkpoints();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].end_ns, 5 * kMs);
  EXPECT_EQ(found[1].begin_ns, 20 * kMs);
}

TEST_F(CheckpointsTest, OnlyWritesOfTheRankAndItsWorkersCount) {
  const Program rank0 = job_->program({.rank = 0});
  const Program saver = job_->program({.rank = 0, .parent_pid = rank0.pid()});
  const Program rank1 = job_->program({.rank = 1});
  rank0.region("checkpoint", {.at = 10ms, .takes = 10ms});
  saver.write("/model", {.at = 12ms, .takes = 1ms, .size = 30});
  rank1.write("/log", {.at = 12ms, .takes = 1ms, .size = 500});
  const std::vector<Checkpoint> found = checkpoints();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].bytes, 30u);
  EXPECT_EQ(found[0].file, "/model");
}

TEST_F(CheckpointsTest, ANestedRegionDoesNotHideTheOuterOne) {
  const Program program = job_->program({});
  program.region("checkpoint", {.at = 0ms, .takes = 20ms});
  program.region("checkpoint", {.at = 2ms, .takes = 2ms});
  program.write("/model", {.at = 15ms, .takes = 1ms, .size = 30});
  const std::vector<Checkpoint> found = checkpoints();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].bytes, 30u);
}

TEST_F(CheckpointsTest, CallsThatCompleteTheFileBelongToTheCheckpoint) {
  const Program program = job_->program({});
  program.region("compute", {.at = 0ms, .takes = 10ms});
  program.region("checkpoint", {.at = 10ms, .takes = 10ms});
  program.write("/out/model.tmp", {.at = 11ms, .takes = 5ms, .size = 4000});
  program.write("/out/model.tmp", {.at = 21ms, .takes = 1ms, .size = 96});
  program.call(wire::Call::kFsync, "/out/model.tmp", {.at = 22ms, .takes = 8ms});
  program.close("/out/model.tmp", {.at = 30ms, .takes = 1ms});
  program.call(wire::Call::kRename, "/out/model.tmp",
               {.at = 31ms, .takes = 1ms, .other_file = "/out/model.pt"});
  program.write("/log", {.at = 35ms, .takes = 1ms, .size = 10});
  program.region("compute", {.at = 40ms, .takes = 10ms});
  program.write("/out/model.pt", {.at = 45ms, .takes = 1ms, .size = 7});
  const std::vector<Checkpoint> found = checkpoints();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].begin_ns, 10 * kMs);
  EXPECT_EQ(found[0].end_ns, 32 * kMs);
  EXPECT_EQ(found[0].stalled_ns, 22 * kMs);
  EXPECT_EQ(found[0].bytes, 4096u);
}

// The program goes on without regions, and its files are closed when it ends.
TEST_F(CheckpointsTest, TheLastOneDoesNotLastUntilTheProcessEnds) {
  const Program program = job_->program({});
  program.region("compute", {.at = 0ms, .takes = 10ms});
  program.region("checkpoint", {.at = 10ms, .takes = 14ms});
  program.write("/out/model.pt", {.at = 11ms, .takes = 5ms, .size = 4000});
  program.call(wire::Call::kFsync, "/out/model.pt", {.at = 25ms, .takes = 3ms});
  program.close("/out/model.pt", {.at = 2680ms, .takes = 1ms});
  program.call(wire::Call::kFsync, "/out/log", {.at = 2682ms, .takes = 1ms});
  const std::vector<Checkpoint> found = checkpoints();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].end_ns - found[0].begin_ns, 18 * kMs);
}

TEST_F(CheckpointsTest, ALateOneOfTheSameStepIsAnother) {
  const Program program = job_->program({.rank = 0});
  program.region("checkpoint", {.at = 0ms, .takes = 5ms, .epoch = 0, .step = 10});
  program.region("checkpoint", {.at = 8ms, .takes = 5ms, .epoch = 0, .step = 10});
  program.region("checkpoint", {.at = 2600ms, .takes = 5ms, .epoch = 0, .step = 10});
  const std::vector<Checkpoint> found = checkpoints();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].end_ns, 13 * kMs);
  EXPECT_EQ(found[1].end_ns - found[1].begin_ns, 5 * kMs);
}

TEST_F(CheckpointsTest, AStateSavedToABufferIsWrittenAfterTheRegion) {
  const Program program = job_->program({});
  program.region("checkpoint", {.at = 0ms, .takes = 1ms});
  program.write("/out/model.pt", {.at = 2ms, .takes = 5ms, .size = 4000});
  program.call(wire::Call::kFsync, "/out", {.at = 7ms, .takes = 2ms});
  program.region("batch_wait", {.at = 10ms, .takes = 10ms});
  const std::vector<Checkpoint> found = checkpoints();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].end_ns, 9 * kMs);
  EXPECT_EQ(found[0].file, "/out/model.pt");
}

TEST_F(CheckpointsTest, OtherFilesDoNotProlongACheckpoint) {
  const Program program = job_->program({});
  program.region("checkpoint", {.at = 0ms, .takes = 10ms});
  program.write("/out/model.pt", {.at = 2ms, .takes = 5ms, .size = 4000});
  program.write("/log", {.at = 12ms, .takes = 5ms, .size = 40});
  program.region("compute", {.at = 30ms, .takes = 10ms});
  program.write("/out/model.pt", {.at = 31ms, .takes = 5ms, .size = 4000});
  const std::vector<Checkpoint> found = checkpoints();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].end_ns, 10 * kMs);
}

TEST_F(CheckpointsTest, ANewFileNamedLikeACheckpointIsOneWithoutARegion) {
  const Program program = job_->program({});
  const auto add_step = [&](std::chrono::milliseconds at) {
    program.region("batch_wait", {.at = at, .takes = 5ms, .epoch = 3});
    program.region("compute", {.at = at + 5ms, .takes = 5ms, .epoch = 3});
  };
  add_step(0ms);
  program.open("/runs/checkpoints/log", {.at = 10ms, .takes = 1ms, .detail = O_WRONLY | O_APPEND});
  program.write("/runs/checkpoints/log", {.at = 11ms, .takes = 1ms, .size = 9});
  add_step(20ms);
  program.open("/runs/state.ckpt", {.at = 30ms, .takes = 1ms, .detail = O_WRONLY | O_CREAT});
  program.write("/runs/state.ckpt", {.at = 32ms, .takes = 4ms, .size = 4000});
  program.call(wire::Call::kFsync, "/runs/state.ckpt", {.at = 36ms, .takes = 12ms});
  add_step(50ms);
  program.open("/runs/model.pt", {.at = 60ms, .takes = 1ms, .detail = O_RDONLY});
  const std::vector<Checkpoint> found = checkpoints();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].epoch, 3);
  EXPECT_EQ(found[0].begin_ns, 30 * kMs);
  EXPECT_EQ(found[0].end_ns, 48 * kMs);
  EXPECT_EQ(found[0].stalled_ns, 18 * kMs);
  EXPECT_EQ(found[0].bytes, 4000u);
  EXPECT_EQ(found[0].file, "/runs/state.ckpt");
}

TEST_F(CheckpointsTest, TwoMergedSharesEqualTheWhole) {
  add_one_of_four();
  const trace::Trace trace = job_->finish();
  ASSERT_EQ(trace.blocks().size(), 4u);
  MetricRun first(trace, {make_checkpoints_metric});
  ASSERT_TRUE(first.observe({.index = 1, .count = 2}, /*backwards=*/true).ok());
  MetricRun second(trace, {make_checkpoints_metric});
  ASSERT_TRUE(second.observe({.index = 0, .count = 2}).ok());
  ASSERT_TRUE(first.merge(0, second.save(0)).ok());
  const std::vector<Checkpoint> found = first.finish().checkpoints;
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].bytes, 8010u);
  EXPECT_EQ(found[0].stalled_ns, 14 * kMs);
}

TEST_F(CheckpointsTest, InvalidSavedBytesAreRejected) {
  add_one_of_four();
  const trace::Trace trace = job_->finish();
  MetricRun run(trace, {make_checkpoints_metric});
  ASSERT_TRUE(run.observe({}).ok());
  const std::vector<std::byte> saved = run.save(0);
  for (size_t length = 0; length < saved.size(); ++length) {
    ASSERT_FALSE(run.merge(0, ByteView(saved).first(length)).ok()) << length;
  }
  const std::vector<std::byte> huge(11, std::byte{0xff});
  EXPECT_FALSE(run.merge(0, huge).ok());
  EXPECT_EQ(run.finish().checkpoints[0].bytes, 8010u);
}

}  // namespace
}  // namespace millrace::analyze
