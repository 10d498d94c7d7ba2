#include "replay/paths.h"

#include <gtest/gtest.h>

namespace millrace::replay {
namespace {

TEST(Paths, CleanPathsHaveNoDotsAndStayBelowTheRoot) {
  EXPECT_EQ(clean_path("/a//b/./c/", "/"), "/a/b/c");
  EXPECT_EQ(clean_path("/a/../b", "/"), "/b");
  EXPECT_EQ(clean_path("/../../etc/passwd", "/"), "/etc/passwd");
  EXPECT_EQ(clean_path("/..", "/"), "/");
  EXPECT_EQ(clean_path("", "/"), "/");
}

TEST(Paths, RelativeNamesAreBelowTheWorkingDirectory) {
  EXPECT_EQ(clean_path("x/y", "/jobs/7"), "/jobs/7/x/y");
  EXPECT_EQ(clean_path("../x", "/jobs/7"), "/jobs/x");
  EXPECT_EQ(clean_path("../../../../x", "/jobs/7"), "/x");
  EXPECT_EQ(clean_path("x", ""), "/x");
}

TEST(Paths, PipesAndKernelFilesAreNotStorage) {
  for (const std::string_view name :
       {"", "<pipe>", "pipe:[123]", "socket:[4]", "anon_inode:[io_uring]", "/memfd:x (deleted)",
        "/proc/self/maps", "/sys/block", "/dev/null", "/data/../proc/1", "/dev"}) {
    EXPECT_FALSE(is_storage(name)) << name;
  }
  EXPECT_FALSE(is_storage(std::string_view("/a\0b", 4)));
  for (const std::string_view name : {"/data/x", "x", "/process", "/devices/x", "/a:[b]"}) {
    EXPECT_TRUE(is_storage(name)) << name;
  }
}

TEST(Paths, ADirectoryIsNotAPrefixOfItsNeighbour) {
  EXPECT_TRUE(is_below("/data/x", "/data"));
  EXPECT_TRUE(is_below("/data", "/data"));
  EXPECT_TRUE(is_below("/data", "/"));
  EXPECT_FALSE(is_below("/database", "/data"));
  EXPECT_EQ(relative_to("/data/x/y", "/data"), "x/y");
  EXPECT_EQ(relative_to("/data", "/data"), "");
  EXPECT_EQ(relative_to("/data", "/"), "data");
  EXPECT_EQ(common_directory("/data/a", "/data/b/c"), "/data");
  EXPECT_EQ(common_directory("/data/a", "/data/a/c"), "/data/a");
  EXPECT_EQ(common_directory("/data", "/database"), "/");
}

TEST(PathTable, EqualPathsHaveOneNumber) {
  PathTable table;
  const uint32_t first = table.intern("/a");
  for (int i = 0; i < 1000; ++i) table.intern("/b" + std::to_string(i));
  EXPECT_EQ(table.intern("/a"), first);
  EXPECT_EQ(table.find("/a"), first);
  EXPECT_EQ(table.find("/c"), kNoPath);
  EXPECT_EQ(table.text(first), "/a");
  EXPECT_EQ(table.size(), 1001u);
}

}  // namespace
}  // namespace millrace::replay
