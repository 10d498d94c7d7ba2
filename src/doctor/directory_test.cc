#include "doctor/directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <fstream>

#include "base/io/temporary_directory.h"

namespace millrace::doctor {
namespace {

using testing::HasSubstr;

constexpr uint64_t kProbeBytes = uint64_t{8} << 20;

class DirectoryTest : public testing::Test {
 protected:
  bool is_empty() const { return std::filesystem::is_empty(directory_.path()); }

  TemporaryDirectory directory_ = *TemporaryDirectory::create();
};

TEST_F(DirectoryTest, AGoodDirectoryHasRoomAndSpeed) {
  DirectoryFindings findings = look_at_directory(directory_.path());
  ASSERT_TRUE(findings.usable);
  EXPECT_GT(findings.total_bytes, 0u);
  measure_directory(findings, {.probe_size_bytes = kProbeBytes});
  ASSERT_TRUE(findings.speed.has_value());
  EXPECT_GT(findings.speed->probe_size_bytes, 0u);
  EXPECT_LE(findings.speed->probe_size_bytes, kProbeBytes);  // less if the disk is slow
  EXPECT_GT(findings.speed->write_bytes_per_second, 0);
  EXPECT_GT(findings.speed->cached_read_bytes_per_second, 0);
  EXPECT_GT(findings.speed->small_creates_per_second, 0);
  EXPECT_GT(findings.speed->small_stats_per_second, 0);
  EXPECT_GT(findings.speed->small_reads_per_second, 0);
  EXPECT_NE(findings.speed->device_method, "");
  EXPECT_TRUE(is_empty());
}

TEST_F(DirectoryTest, AMemoryFileSystemHasNoDevice) {
  const TemporaryDirectory shared = *TemporaryDirectory::create("/dev/shm");
  DirectoryFindings findings = look_at_directory(shared.path());
  ASSERT_EQ(findings.file_system, "tmpfs");
  measure_directory(findings, {.probe_size_bytes = kProbeBytes});
  ASSERT_TRUE(findings.speed.has_value());
  EXPECT_FALSE(findings.speed->device_read_bytes_per_second.has_value());
  EXPECT_THAT(findings.speed->device_method, HasSubstr("lives in memory"));
}

// ramfs refuses O_DIRECT, and nothing can be dropped from it.
TEST_F(DirectoryTest, NoDeviceSpeedIsReportedIfTheCacheCannotBeAvoided) {
  if (geteuid() != 0) GTEST_SKIP() << "mounting needs root";
  ASSERT_EQ(mount("ramfs", directory_.path().c_str(), "ramfs", 0, nullptr), 0);
  const auto speed = measure_directory_speed(directory_.path(), {.probe_size_bytes = kProbeBytes});
  EXPECT_EQ(umount(directory_.path().c_str()), 0);
  ASSERT_TRUE(speed.ok()) << speed.error().message();
  EXPECT_FALSE(speed->device_read_bytes_per_second.has_value());
  EXPECT_EQ(speed->device_method,
            "not measured: O_DIRECT is refused, and 100 % of the file stays in the page cache");
}

TEST_F(DirectoryTest, CancellingLeavesNothingBehind) {
  const std::atomic<bool> cancelled = true;
  const auto speed = measure_directory_speed(
      directory_.path(), {.probe_size_bytes = kProbeBytes, .cancelled = &cancelled});
  EXPECT_EQ(speed.error().code(), Errc::kCancelled);
  EXPECT_TRUE(is_empty());
}

TEST_F(DirectoryTest, AMissingPathIsAFailureWithItsFix) {
  const auto findings = look_at_directory(directory_.path() / "absent");
  EXPECT_FALSE(findings.usable);
  ASSERT_EQ(findings.findings.size(), 1u);
  EXPECT_EQ(findings.findings[0].state, State::kFailed);
  EXPECT_THAT(findings.findings[0].fix, HasSubstr("mkdir -p"));
}

TEST_F(DirectoryTest, AFileIsNotADirectory) {
  const auto path = directory_.path() / "file";
  std::ofstream{path};
  EXPECT_EQ(look_at_directory(path).findings.at(0).fact, "it is not a directory");
}

TEST_F(DirectoryTest, NothingIsMeasuredIfFilesCannotBeCreated) {
  DirectoryFindings findings = look_at_directory("/proc");  // not even root can create files here
  findings.free_bytes = 4 * kProbeBytes;                    // it claims to have none
  measure_directory(findings, {.probe_size_bytes = kProbeBytes});
  EXPECT_FALSE(findings.speed.has_value());
  EXPECT_EQ(findings.findings.back().state, State::kFailed);
  EXPECT_THAT(findings.findings.back().fix, HasSubstr("choose a directory you"));
}

TEST_F(DirectoryTest, TooLittleSpaceIsReported) {
  DirectoryFindings findings = look_at_directory(directory_.path());
  findings.free_bytes = 1 << 20;
  measure_directory(findings, {.probe_size_bytes = kProbeBytes});
  EXPECT_FALSE(findings.speed.has_value());
  EXPECT_EQ(findings.findings.back().state, State::kLimited);
  EXPECT_EQ(findings.findings.back().fix, "free some space");
}

}  // namespace
}  // namespace millrace::doctor
