#include "base/io/mounts.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

constexpr std::string_view kMountInfo =
    "21 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"
    "nonsense\n"
    "30 21 0:26 / /var/data\\040sets rw shared:1 master:2 - nfs4 server:/export rw\n"
    "31 21 0:27 / /var/data rw - tmpfs tmpfs rw\n"
    "32 21 0:28 / /var/data rw - xfs /dev/vdb rw\n"
    "33 21 0:29 / /var/short rw -\n";

TEST(FindMount, TakesTheDeepestAndTheLast) {
  EXPECT_EQ(find_mount(kMountInfo, "/var/x")->file_system, "ext4");
  EXPECT_EQ(find_mount(kMountInfo, "/var/data/train")->file_system, "xfs");
  EXPECT_EQ(find_mount(kMountInfo, "/var/data sets/a")->source, "server:/export");
  EXPECT_EQ(find_mount(kMountInfo, "/var/database")->file_system, "ext4");
  EXPECT_EQ(find_mount(kMountInfo, "/var/short/x")->file_system, "ext4");
  EXPECT_FALSE(find_mount("", "/").has_value());
}

TEST(MountOf, FindsTheMountsOfRootAndProc) {
  ASSERT_TRUE(mount_of("/").has_value());
  EXPECT_EQ(mount_of("/proc/self/status")->file_system, "proc");
}

TEST(IsShared, KnowsFileSystemsOfOtherMachines) {
  for (const char* name : {"nfs4", "lustre", "fuse.glusterfs", "fuse", "9p"}) {
    EXPECT_TRUE(is_shared(name)) << name;
  }
  for (const char* name : {"ext4", "xfs", "tmpfs", "overlay", ""}) {
    EXPECT_FALSE(is_shared(name)) << name;
  }
}

TEST(IsRotating, IsUnknownForADeviceThatDoesNotExist) {
  EXPECT_FALSE(is_rotating("4095:1048575").has_value());
  EXPECT_FALSE(is_rotating("").has_value());
}

}  // namespace
}  // namespace millrace
