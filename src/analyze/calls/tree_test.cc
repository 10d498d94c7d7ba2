#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>

#include "analyze/testing/metric_run.h"
#include "analyze/testing/trace_builder.h"
#include "base/io/temporary_directory.h"

namespace millrace::analyze {
namespace {

using std::chrono::nanoseconds;
using testing::ElementsAre;
using testing::IsEmpty;
using namespace std::chrono_literals;

class TreeTest : public testing::Test {
 protected:
  TreeTest() : directory_(*TemporaryDirectory::create()) {}

  TraceBuilder& job() { return job_; }

  const Context& context() {
    if (!trace_) {
      trace_.emplace(job_.finish());
      context_.emplace(make_context(*trace_, {}, problems_));
    }
    return *context_;
  }

  std::vector<TreeNode> tree(const Limits& limits = {}) {
    return profile_by(context().trace, make_tree_metric, limits).tree;
  }

 private:
  TemporaryDirectory directory_;
  TraceBuilder job_{directory_.path() / "job.mrt"};
  std::optional<trace::Trace> trace_;
  std::vector<std::string> problems_;
  std::optional<Context> context_;
};

// One line per node, in the order of the tree: "fetch;pread 2x 100 ns, 100 own, 64 bytes".
std::vector<std::string> lines(const std::vector<TreeNode>& tree) {
  std::vector<std::string> lines;
  std::vector<std::string> paths(tree.size());
  for (size_t i = 1; i < tree.size(); ++i) {
    const TreeNode& node = tree[i];
    EXPECT_LT(node.parent, i);
    paths[i] = paths[node.parent] + (node.parent == 0 ? "" : ";") + node.name;
    lines.push_back(fmt::format("{} {}x {} ns, {} own, {} bytes", paths[i], node.count,
                                node.total_ns, node.self_ns, node.bytes));
  }
  return lines;
}

TEST_F(TreeTest, NestsRegionLibraryAndSystemCalls) {
  const Program program = job().program({});
  program.region("fetch", {.at = 0ns, .takes = 1000ns});
  program.call(wire::Call::kH5Dread, "/a.h5", {.at = 100ns, .takes = 500ns, .size = 64});
  program.read("/a.h5", {.at = 150ns, .takes = 100ns, .size = 40});
  program.read("/a.h5", {.at = 300ns, .takes = 200ns, .size = 24});
  program.read("/b", {.at = 700ns, .takes = 50ns, .size = 5});
  program.close("/b", {.at = 1200ns, .takes = 30ns});
  const std::vector<TreeNode> found = tree();
  EXPECT_THAT(lines(found), ElementsAre("fetch 1x 1000 ns, 450 own, 0 bytes",
                                        "fetch;H5Dread 1x 500 ns, 200 own, 64 bytes",
                                        "fetch;H5Dread;pread 2x 300 ns, 300 own, 64 bytes",
                                        "fetch;pread 1x 50 ns, 50 own, 5 bytes",
                                        "close 1x 30 ns, 30 own, 0 bytes"));
  EXPECT_EQ(found[0].name, "");
  EXPECT_EQ(found[0].total_ns, 1030u);
  EXPECT_EQ(found[0].self_ns, 0u);
  EXPECT_EQ(found[1].layer, Layer::kLoader);
  EXPECT_EQ(found[2].layer, Layer::kFormat);
  EXPECT_EQ(found[3].layer, Layer::kPosix);
}

TEST_F(TreeTest, SeparatesThreadsAndAddsTheirTrees) {
  const Program program = job().program({});
  program.region("fetch", {.at = 0ns, .takes = 1000ns, .thread = 0});
  program.read("/a", {.at = 100ns, .takes = 100ns, .size = 1, .thread = 1});
  program.region("fetch", {.at = 150ns, .takes = 500ns, .thread = 2});
  program.read("/a", {.at = 200ns, .takes = 300ns, .size = 1, .thread = 2});
  EXPECT_THAT(lines(tree()), ElementsAre("fetch 2x 1500 ns, 1200 own, 0 bytes",
                                         "fetch;pread 1x 300 ns, 300 own, 1 bytes",
                                         "pread 1x 100 ns, 100 own, 1 bytes"));
}

TEST_F(TreeTest, FollowsARegionWithinARegionOfTheSameName) {
  const Program program = job().program({});
  program.region("walk", {.at = 0ns, .takes = 100ns});
  program.region("walk", {.at = 10ns, .takes = 50ns});
  program.region("walk", {.at = 20ns, .takes = 10ns});
  program.region("walk", {.at = 70ns, .takes = 10ns});
  EXPECT_THAT(lines(tree()),
              ElementsAre("walk 1x 100 ns, 40 own, 0 bytes", "walk;walk 2x 60 ns, 50 own, 0 bytes",
                          "walk;walk;walk 1x 10 ns, 10 own, 0 bytes"));
}

TEST_F(TreeTest, CallsThatTouchAreSiblings) {
  const Program program = job().program({});
  program.region("a", {.at = 0ns, .takes = 100ns});
  program.region("b", {.at = 100ns, .takes = 50ns});
  program.open("/x", {.at = 150ns, .takes = 10ns});
  program.read("/x", {.at = 160ns, .takes = 10ns, .size = 1});
  // With a coarse clock these begin at once. Calls of one layer do not nest because of that.
  program.close("/x", {.at = 170ns, .takes = 0ns});
  program.open("/y", {.at = 170ns, .takes = 5ns});
  EXPECT_THAT(lines(tree()),
              ElementsAre("a 1x 100 ns, 100 own, 0 bytes", "b 1x 50 ns, 50 own, 0 bytes",
                          "open 2x 15 ns, 15 own, 0 bytes", "pread 1x 10 ns, 10 own, 1 bytes",
                          "close 1x 0 ns, 0 own, 0 bytes"));
}

TEST_F(TreeTest, AZeroLengthCallNestsInTheRegionAroundIt) {
  const Program program = job().program({});
  program.region("fetch", {.at = 100ns, .takes = 100ns});
  program.close("/x", {.at = 100ns, .takes = 0ns});
  program.close("/x", {.at = 150ns, .takes = 0ns});
  program.close("/x", {.at = 99ns, .takes = 0ns});
  program.region("nothing", {.at = 300ns, .takes = 0ns});
  EXPECT_THAT(
      lines(tree()),
      ElementsAre("fetch 1x 100 ns, 100 own, 0 bytes", "fetch;close 2x 0 ns, 0 own, 0 bytes",
                  "close 1x 0 ns, 0 own, 0 bytes", "nothing 1x 0 ns, 0 own, 0 bytes"));
}

TEST_F(TreeTest, ACallbackOfTheSameLayerMustBeStrictlyWithin) {
  const Program program = job().program({});
  program.call(wire::Call::kNftw, "/data", {.at = 0ns, .takes = 100ns, .result = 0});
  program.call(wire::Call::kStat, "/data/a", {.at = 10ns, .takes = 20ns, .result = 0});
  EXPECT_THAT(lines(tree()), ElementsAre("nftw 1x 100 ns, 80 own, 0 bytes",
                                         "nftw;stat 1x 20 ns, 20 own, 0 bytes"));
}

TEST_F(TreeTest, RegionsThatOverlapHaveNoNegativeTime) {
  const Program program = job().program({});
  program.region("outer", {.at = 0ns, .takes = 100ns});
  program.region("x", {.at = 10ns, .takes = 70ns});
  program.region("y", {.at = 20ns, .takes = 75ns});
  EXPECT_THAT(lines(tree()),
              ElementsAre("outer 1x 100 ns, 0 own, 0 bytes", "outer;y 1x 75 ns, 75 own, 0 bytes",
                          "outer;x 1x 70 ns, 70 own, 0 bytes"));
}

TEST_F(TreeTest, IgnoresMarksAndProcessControl) {
  const Program program = job().program({});
  program.call(wire::Call::kMark, "here", {.at = 10ns, .takes = 0ns});
  program.call(wire::Call::kFork, "", {.at = 20ns, .takes = 50ns});
  program.call(wire::Call::kMapped, "/a", {.at = 80ns, .takes = 0ns});
  EXPECT_THAT(lines(tree()), IsEmpty());
}

TEST_F(TreeTest, NestsInRegionsThatEndInALaterBlock) {
  const Program program = job().program({});
  constexpr int kReads = 150'000;  // in three blocks
  for (int i = 0; i < kReads; ++i) {
    program.read("/a", {.at = nanoseconds(1000 + 100 * i), .takes = 60ns, .size = 2});
  }
  const nanoseconds end(1000 + 100 * kReads);
  program.region("epoch", {.at = 500ns, .takes = end - 500ns, .epoch = 0});
  program.region("fetch", {.at = 600ns, .takes = 100 * nanoseconds(kReads), .epoch = 0});
  program.region("train", {.at = 0ns, .takes = end + 1ms});
  ASSERT_EQ(context().trace.blocks().size(), 3u);
  EXPECT_THAT(lines(tree()),
              ElementsAre("train 1x 16001000 ns, 1000500 own, 0 bytes",
                          "train;epoch 1x 15000500 ns, 260 own, 0 bytes",
                          "train;epoch;fetch 1x 15000000 ns, 6000240 own, 0 bytes",
                          "train;epoch;fetch;pread 149996x 8999760 ns, 8999760 own, 299992 bytes",
                          "train;epoch;pread 4x 240 ns, 240 own, 8 bytes"));
}

TEST_F(TreeTest, FoldsTheSmallestNodesAndLosesNoTime) {
  const Program program = job().program({});
  program.region("fetch", {.at = 0ns, .takes = 1000ns});
  program.read("/a", {.at = 10ns, .takes = 400ns, .size = 1});
  program.open("/a", {.at = 500ns, .takes = 30ns});
  program.region("small", {.at = 600ns, .takes = 40ns});
  program.close("/a", {.at = 610ns, .takes = 20ns});
  program.region("other", {.at = 2000ns, .takes = 5ns});
  EXPECT_THAT(
      lines(tree({.tree_nodes = 5})),
      ElementsAre("fetch 1x 1000 ns, 530 own, 0 bytes", "fetch;pread 1x 400 ns, 400 own, 1 bytes",
                  "fetch;(other) 3x 70 ns, 70 own, 0 bytes", "(other) 1x 5 ns, 5 own, 0 bytes"));
  EXPECT_THAT(lines(tree({.tree_nodes = 2})), ElementsAre("(other) 6x 1005 ns, 1005 own, 1 bytes"));
  EXPECT_EQ(tree({.tree_nodes = 7}).size(), 7u);
}

TEST_F(TreeTest, DepthIsLimitedUnderRecursion) {
  const Program program = job().program({});
  for (int i = 0; i < 400; ++i) {
    program.region("deeper", {.at = nanoseconds(i), .takes = nanoseconds(1000 - 2 * i)});
  }
  const std::vector<TreeNode> found = tree();
  EXPECT_EQ(found.size(), 1u + 128u);
  uint64_t count = 0;
  for (const TreeNode& node : found) count += node.count;
  EXPECT_EQ(count, 400u);
}

TEST_F(TreeTest, AnEmptyTraceHasOnlyTheRoot) {
  job().program({});
  EXPECT_EQ(tree().size(), 1u);
}

void make_varied_ranks(TraceBuilder& job) {
  for (int32_t rank = 0; rank < 5; ++rank) {
    const Program program = job.program({.rank = rank, .world_size = 5});
    for (int i = 0; i < 50; ++i) {
      const nanoseconds at(1000 * i);
      // Every rank meets the names in a different order.
      program.region(fmt::format("region {}", (i * 7 + rank) % 11), {.at = at, .takes = 900ns});
      program.read("/a", {.at = at + 10ns, .takes = nanoseconds(10 + i % 3), .size = 3});
      program.open("/a", {.at = at + 100ns, .takes = 11ns});
    }
  }
}

TEST_F(TreeTest, DoesNotDependOnTheOrderOrSharesOfBlocks) {
  make_varied_ranks(job());
  ASSERT_EQ(context().trace.blocks().size(), 5u);
  for (const size_t nodes_max : {2000, 15, 3}) {
    const Limits limits{.tree_nodes = nodes_max};
    const Profile in_shares = profile_by_shares(context().trace, make_tree_metric, limits);
    EXPECT_EQ(lines(tree(limits)), lines(in_shares.tree));
  }
  EXPECT_EQ(tree().size(), 1u + 11u * 3u);
}

TEST_F(TreeTest, RejectsInvalidBytes) {
  make_varied_ranks(job());
  MetricRun run(context().trace, {make_tree_metric}, {});
  ASSERT_TRUE(run.observe({}).ok());
  const std::vector<std::byte> saved = run.save(0);
  const auto merges = [&](ByteView bytes) {
    ByteReader reader(bytes);
    const auto other = make_tree_metric(context(), {});
    const bool is_ok = other->merge(reader).ok();
    Profile profile;
    other->finish(context(), profile);
    EXPECT_EQ(profile.tree.size() > 1, is_ok);  // a rejected tree leaves nothing behind
    return is_ok;
  };
  EXPECT_TRUE(merges(saved));
  for (size_t length = 0; length < saved.size(); length += 13) {
    EXPECT_FALSE(merges(ByteView(saved).first(length))) << length;
  }
  EXPECT_FALSE(merges(std::vector<std::byte>(saved.size(), std::byte{0xff})));
  EXPECT_FALSE(merges(std::vector<std::byte>(saved.size(), std::byte{0})));
  // The second node, after the count and the root: 8 bytes of key, then numbers, then its parent.
  constexpr size_t kSecond = 8 + 40;
  for (const size_t wrong : {kSecond + 3, kSecond + 4, kSecond + 7, kSecond + 32}) {
    std::vector<std::byte> garbage = saved;
    garbage[wrong] = std::byte{0x7e};
    EXPECT_FALSE(merges(garbage)) << wrong;
  }
}

}  // namespace
}  // namespace millrace::analyze
