#include "store/pack/tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace millrace::store {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using wire::EntryKind;

Member member(std::string path, EntryKind kind = EntryKind::kFile, uint32_t partition = 0) {
  Member made{.path = std::move(path)};
  made.entry.kind = kind;
  made.entry.partition = partition;
  if (kind == EntryKind::kLink) made.target = "target";
  return made;
}

std::vector<std::string> paths(const Tree& tree) {
  std::vector<std::string> all;
  for (uint32_t i = 0; i < tree.entries.size(); ++i) all.push_back(tree.path(i));
  return all;
}

TEST(Tree, NoMembersMakeARoot) {
  const auto tree = tree_of({});
  ASSERT_TRUE(tree.ok());
  EXPECT_THAT(paths(*tree), ElementsAre(""));
}

TEST(Tree, ChildrenAreConsecutiveAndSorted) {
  const auto tree = tree_of({member("b/2"), member("a!"), member("a/z"), member("b/1"),
                             member("a", EntryKind::kDirectory), member("ab")});
  ASSERT_TRUE(tree.ok());
  EXPECT_THAT(paths(*tree), ElementsAre("", "a", "a!", "ab", "b", "a/z", "b/1", "b/2"));
  EXPECT_EQ(tree->entries[4].offset_bytes, 6u);
  EXPECT_EQ(tree->entries[4].size_bytes, 2u);
}

TEST(Tree, MissingDirectoriesAreAdded) {
  const auto tree = tree_of({member("x/y/z")});
  ASSERT_TRUE(tree.ok());
  EXPECT_THAT(paths(*tree), ElementsAre("", "x", "x/y", "x/y/z"));
  EXPECT_EQ(tree->entries[1].mode, 0755u);
}

TEST(Tree, TheLastOfTwoEqualPathsCounts) {
  Member second = member("a");
  second.entry.mode = 0600;
  const auto tree = tree_of({member("a"), second});
  ASSERT_TRUE(tree.ok());
  ASSERT_EQ(tree->entries.size(), 2u);
  EXPECT_EQ(tree->entries[1].mode, 0600u);
}

TEST(Tree, OnePathInTwoPartitionsIsAnError) {
  const auto tree = tree_of({member("a"), member("a", EntryKind::kFile, 1)});
  ASSERT_FALSE(tree.ok());
  EXPECT_THAT(tree.error().message(), HasSubstr("'a' is in two partitions, 0 and 1"));
}

TEST(Tree, PathsThatCouldLeaveTheRootAreErrors) {
  for (const char* path : {"..", "../a", "a/../b", "a/..", "/a", "a//b", "a/", ".", "./a", "a/."}) {
    EXPECT_FALSE(tree_of({member(path)}).ok()) << path;
  }
  EXPECT_FALSE(tree_of({member(std::string("a\0b", 3))}).ok());
  EXPECT_FALSE(tree_of({member(std::string(256, 'n'))}).ok());
  EXPECT_TRUE(tree_of({member(std::string(255, 'n'))}).ok());
  EXPECT_TRUE(tree_of({member("..."), member("..a"), member("\xff\n")}).ok());
}

TEST(Tree, NothingIsBelowAFileOrALink) {
  EXPECT_FALSE(tree_of({member("a"), member("a/b")}).ok());
  EXPECT_FALSE(tree_of({member("a", EntryKind::kLink), member("a/b")}).ok());
}

TEST(Tree, AFileCannotBeTheRoot) { EXPECT_FALSE(tree_of({member("")}).ok()); }

TEST(Tree, LinksNeedATarget) {
  Member link = member("a", EntryKind::kLink);
  link.target.clear();
  EXPECT_FALSE(tree_of({link}).ok());
}

}  // namespace
}  // namespace millrace::store
