#include "base/system/memory.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "base/io/file.h"
#include "base/system/cgroup.h"

namespace millrace {
namespace {

TEST(Memory, AvailableIsAtMostTotal) {
  ASSERT_TRUE(memory_total_bytes().has_value());
  ASSERT_TRUE(memory_available_bytes().has_value());
  EXPECT_GT(*memory_available_bytes(), 0u);
  EXPECT_LE(*memory_available_bytes(), *memory_total_bytes());
}

TEST(Memory, APageIsAPowerOfTwoAndAtLeast4KiB) {
  EXPECT_EQ(page_bytes() % 4096, 0u);
  EXPECT_EQ(page_bytes() & (page_bytes() - 1), 0u);
}

// Tests cgroup v1 or v2: the one that this machine has, if we may create one.
TEST(Memory, TheLimitOfASubgroupIsSeen) {
  constexpr uint64_t kLimit = uint64_t{512} << 20;
  const auto cgroup = read_file("/proc/self/cgroup", 1 << 20);
  const auto mountinfo = read_file("/proc/self/mountinfo", 1 << 20);
  ASSERT_TRUE(cgroup.ok() && mountinfo.ok());
  const auto places =
      cgroup_paths({"memory", "memory.limit_in_bytes", "memory.max"}, *cgroup, *mountinfo);
  for (const CgroupPath& place : places) {
    const auto group = place.path.parent_path() / ("millrace-test-" + std::to_string(getpid()));
    if (mkdir(group.c_str(), 0700) != 0) continue;
    std::ofstream(group / place.path.filename()) << kLimit;
    const pid_t child = fork();
    if (child == 0) {
      std::ofstream(group / "cgroup.procs") << getpid() << std::flush;
      _exit(memory_limit_bytes() == kLimit ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    const bool has_limit = read_file(group / place.path.filename(), 64).ok();
    rmdir(group.c_str());
    if (!has_limit) continue;  // v2 without the controller in this group
    EXPECT_EQ(status, 0) << group;
    return;
  }
  GTEST_SKIP() << "no control group can be made here";
}

TEST(Memory, ALimitIsPositiveOrAbsent) { EXPECT_GT(memory_limit_bytes().value_or(1), 0u); }

}  // namespace
}  // namespace millrace
