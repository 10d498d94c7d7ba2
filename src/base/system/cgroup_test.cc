#include "base/system/cgroup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr CgroupFile kMemory = {"memory", "memory.limit_in_bytes", "memory.max"};

std::vector<std::string> paths(std::string_view cgroup, std::string_view mountinfo) {
  std::vector<std::string> texts;
  for (const CgroupPath& found : cgroup_paths(kMemory, cgroup, mountinfo)) {
    texts.push_back(found.path.string());
  }
  return texts;
}

TEST(Cgroup, OfVersion2IsTheOwnGroupAndAllAroundIt) {
  EXPECT_THAT(paths("0::/system.slice/job_7/step_0\n",
                    "31 23 0:28 / /sys/fs/cgroup rw,relatime shared:4 - cgroup2 cgroup2 rw\n"),
              ElementsAre("/sys/fs/cgroup/system.slice/job_7/step_0/memory.max",
                          "/sys/fs/cgroup/system.slice/job_7/memory.max",
                          "/sys/fs/cgroup/system.slice/memory.max", "/sys/fs/cgroup/memory.max"));
}

TEST(Cgroup, OfVersion1HasItsOwnMountForEachController) {
  EXPECT_THAT(paths("5:cpu,cpuacct:/other\n4:memory:/slurm/job_7\n0::/\n",
                    "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
                    "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"),
              ElementsAre("/sys/fs/cgroup/memory/slurm/job_7/memory.limit_in_bytes",
                          "/sys/fs/cgroup/memory/slurm/memory.limit_in_bytes",
                          "/sys/fs/cgroup/memory/memory.limit_in_bytes"));
}

TEST(Cgroup, OfAContainerIsTheRootOfItsMount) {
  // Docker with v1: the path is that of the host, and its directory is mounted.
  EXPECT_THAT(paths("4:memory:/docker/0a1b\n",
                    "35 31 0:32 /docker/0a1b /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"),
              ElementsAre("/sys/fs/cgroup/memory/memory.limit_in_bytes"));
  EXPECT_THAT(paths("4:memory:/docker/0a1b/below\n",
                    "35 31 0:32 /docker/0a1b /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"),
              ElementsAre("/sys/fs/cgroup/memory/below/memory.limit_in_bytes",
                          "/sys/fs/cgroup/memory/memory.limit_in_bytes"));
  // A name that only begins like the mounted one.
  EXPECT_THAT(paths("4:memory:/docker/0a1bc\n",
                    "35 31 0:32 /docker/0a1b /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"),
              ElementsAre("/sys/fs/cgroup/memory/memory.limit_in_bytes"));
  // A namespace entered from outside.
  EXPECT_THAT(paths("0::/../other\n", "31 23 0:28 / /sys/fs/cgroup ro - cgroup2 cgroup rw\n"),
              ElementsAre("/sys/fs/cgroup/memory.max"));
}

TEST(Cgroup, MountPointsMayHaveSpaces) {
  EXPECT_THAT(paths("0::/a\n", "31 23 0:28 / /sys\\040fs rw - cgroup2 cgroup2 rw\n"),
              ElementsAre("/sys fs/a/memory.max", "/sys fs/memory.max"));
}

TEST(Cgroup, WithoutOneThereAreNoPaths) {
  EXPECT_THAT(paths("", ""), IsEmpty());
  EXPECT_THAT(paths("0::/a\n", "31 23 0:28 / /sys rw - sysfs sysfs rw\n"), IsEmpty());
  EXPECT_THAT(paths("not a line\n0:\n::::\n", "- - -\n - cgroup2\n"), IsEmpty());
}

}  // namespace
}  // namespace millrace
