#include "analyze/context.h"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>

#include "analyze/testing/trace_builder.h"
#include "base/io/temporary_directory.h"

namespace millrace::analyze {
namespace {

using namespace std::chrono_literals;

class ContextTest : public testing::Test {
 protected:
  void SetUp() override {
    auto made = TemporaryDirectory::create();
    ASSERT_TRUE(made.ok());
    directory_.emplace(*std::move(made));
  }
  std::string path() const { return (directory_->path() / "t.mrt").string(); }
  Context context_of(const trace::Trace& trace) { return make_context(trace, {}, problems_); }

  std::optional<TemporaryDirectory> directory_;
  std::vector<std::string> problems_;
};

TEST_F(ContextTest, WorkersBelongToTheRankThatStartedThem) {
  TraceBuilder job(path());
  const Program rank1 = job.program({.rank = 1, .host = "node2"});
  const Program rank0 = job.program({.rank = 0, .host = "node1"});
  const Program worker = job.program({.host = "node2", .parent_pid = rank1.pid()});
  rank1.read("/d", {.at = 1ms, .size = 1});
  rank0.read("/d", {.at = 1ms, .size = 1});
  worker.read("/d", {.at = 2ms, .size = 1});
  const trace::Trace trace = job.finish();
  const Context context = context_of(trace);
  ASSERT_EQ(context.groups.size(), 2u);
  EXPECT_EQ(context.groups[0].name, "rank 0");
  EXPECT_EQ(context.groups[1].name, "rank 1");
  EXPECT_EQ(context.group_of[2], context.group_of[0]);
  EXPECT_EQ(context.hosts[context.groups[1].host], "node2");
}

TEST_F(ContextTest, WithoutRanksAProcessAndItsDescendantsFormOneGroup) {
  TraceBuilder job(path());
  const Program first = job.program({});
  const Program child = job.program({.parent_pid = first.pid()});
  const Program grandchild = job.program({.parent_pid = child.pid()});
  first.read("/d", {.at = 0ms, .size = 1});
  child.read("/d", {.at = 1ms, .size = 1});
  grandchild.read("/d", {.at = 2ms, .size = 1});
  const trace::Trace trace = job.finish();
  const Context context = context_of(trace);
  ASSERT_EQ(context.groups.size(), 1u);
  EXPECT_EQ(context.groups[0].name, "job");
  EXPECT_TRUE(context.groups[0].trains);
}

TEST_F(ContextTest, ProcessesOutsideTheRanksDoNotTrain) {
  TraceBuilder job(path());
  const Program launcher = job.program({.command = "mpirun -n 1 python"});
  const Program rank = job.program({.rank = 0, .parent_pid = launcher.pid()});
  launcher.read("/d", {.at = 0ms, .size = 1});
  rank.read("/d", {.at = 1ms, .size = 1});
  const trace::Trace trace = job.finish();
  const Context context = context_of(trace);
  ASSERT_EQ(context.groups.size(), 2u);
  EXPECT_TRUE(context.groups[0].trains);
  EXPECT_EQ(context.groups[0].rank, 0);
  EXPECT_FALSE(context.groups[1].trains);
}

TEST_F(ContextTest, TheComputingProcessIsMainAndDefinesTheEpochs) {
  TraceBuilder job(path());
  const Program parent = job.program({});
  const Program worker = job.program({.parent_pid = parent.pid()});
  parent.region("epoch", {.at = 0ms, .takes = 10ms, .epoch = 0});
  parent.region("compute", {.at = 2ms, .takes = 5ms, .epoch = 0, .step = 0});
  worker.region("fetch", {.at = 1ms, .takes = 20ms, .epoch = 7, .step = 9});
  const trace::Trace trace = job.finish();
  const Context context = context_of(trace);
  EXPECT_EQ(static_cast<uint32_t>(context.groups[0].main), 0u);
  ASSERT_EQ(context.epochs.epochs(0).size(), 1u);
  EXPECT_EQ(context.epochs.epochs(0)[0].epoch, 0);
  EXPECT_EQ(context.epochs.epochs(0)[0].end_ns, 10'000'000u);
}

TEST_F(ContextTest, WithoutWaitRegionsFetchesOnTheComputingThreadAreWaiting) {
  TraceBuilder job(path());
  const Program program = job.program({});
  program.region("fetch", {.at = 0ms, .takes = 1ms});
  program.region("compute", {.at = 1ms, .takes = 1ms});
  program.region("fetch", {.at = 0ms, .takes = 1ms, .thread = 1});
  const trace::Trace trace = job.finish();
  const Context context = context_of(trace);
  EXPECT_FALSE(context.has_wait_regions);
  int waiting = 0;
  for (uint32_t thread = 0; thread < trace.threads().size(); ++thread) {
    if (is_waiting(context, Role::kFetch, trace::ThreadIndex{thread})) ++waiting;
  }
  EXPECT_EQ(waiting, 1);
}

TEST_F(ContextTest, AnEmptyTraceHasAnEmptyContext) {
  TraceBuilder job(path());
  const trace::Trace trace = job.finish();
  const Context context = context_of(trace);
  EXPECT_TRUE(context.groups.empty());
  EXPECT_EQ(context.begin_ns, context.end_ns);
}

}  // namespace
}  // namespace millrace::analyze
