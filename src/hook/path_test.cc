#include "hook/path.h"

#include <gtest/gtest.h>

#include <string>

namespace millrace::hook {
namespace {

std::string normal(std::string_view directory, std::string_view path) {
  static PathBuffer buffer;
  normalise_path(directory, path, buffer);
  return std::string(buffer.view());
}

TEST(NormalisePath, AbsolutePathsIgnoreTheDirectory) {
  EXPECT_EQ(normal("/h", "/data/a"), "/data/a");
  EXPECT_EQ(normal("", "/"), "/");
}

TEST(NormalisePath, RelativePathsStartAtTheDirectory) {
  EXPECT_EQ(normal("/h/u", "a/b"), "/h/u/a/b");
  EXPECT_EQ(normal("/h/u", ""), "/h/u");
  EXPECT_EQ(normal("/", "a"), "/a");
}

TEST(NormalisePath, DotsAndDoubleSlashesAreRemoved) {
  EXPECT_EQ(normal("/h/u", "./a//b/./c"), "/h/u/a/b/c");
  EXPECT_EQ(normal("/h/u", "../v/../w/"), "/h/w");
  EXPECT_EQ(normal("/", "../../a"), "/a");
  EXPECT_EQ(normal("/a/b", "../.."), "/");
  EXPECT_EQ(normal("/a", "..b/.c"), "/a/..b/.c");
}

TEST(NormalisePath, LongPathsAreCut) {
  const std::string path = "/" + std::string(2 * kPathSizeMax, 'x');
  EXPECT_EQ(normal("", path).size(), kPathSizeMax);
  std::string deep;
  for (int i = 0; i < 9000; ++i) deep += "/x";
  EXPECT_LE(normal("", deep).size(), kPathSizeMax);
}

}  // namespace
}  // namespace millrace::hook
