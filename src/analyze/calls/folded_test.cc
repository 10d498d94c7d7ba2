#include "analyze/calls/folded.h"

#include <gtest/gtest.h>

namespace millrace::analyze {
namespace {

Profile with_tree(std::vector<TreeNode> nodes) {
  Profile profile;
  profile.tree = std::move(nodes);
  return profile;
}

TEST(FoldedStacks, AreOneLinePerPathWithItsOwnMicroseconds) {
  EXPECT_EQ(folded_stacks(with_tree({
                {.name = "", .total_ns = 20'000'000},
                {.name = "fetch", .parent = 0, .total_ns = 20'000'000, .self_ns = 5'000'000},
                {.name = "H5Dread", .parent = 1, .total_ns = 15'000'000, .self_ns = 2'655'000},
                {.name = "pread", .parent = 2, .total_ns = 12'345'000, .self_ns = 12'345'000},
            })),
            "fetch 5000\n"
            "fetch;H5Dread 2655\n"
            "fetch;H5Dread;pread 12345\n");
}

TEST(FoldedStacks, RoundTimesAndOmitZero) {
  EXPECT_EQ(folded_stacks(with_tree({
                {},
                {.name = "a", .self_ns = 499},
                {.name = "b", .self_ns = 500},
                {.name = "c", .self_ns = 1499},
                {.name = "d", .parent = 1, .self_ns = 1000},
            })),
            "b 1\nc 1\na;d 1\n");
}

TEST(FoldedStacks, EscapeNamesThatWouldBreakTheLine) {
  EXPECT_EQ(folded_stacks(with_tree({{}, {.name = "a;b\nc \x1b[31m\xff", .self_ns = 1000}})),
            "a,b\\x0ac \\x1b[31m\\xff 1\n");
}

TEST(FoldedStacks, AreEmptyWithoutATree) {
  EXPECT_EQ(folded_stacks({}), "");
  EXPECT_EQ(folded_stacks(with_tree({{}})), "");
}

TEST(FoldedStacks, SkipNodesThatComeBeforeTheirParents) {
  EXPECT_EQ(folded_stacks(with_tree({{},
                                     {.name = "a", .parent = 2, .self_ns = 1000},
                                     {.name = "b", .parent = 9, .self_ns = 1000}})),
            "");
}

}  // namespace
}  // namespace millrace::analyze
