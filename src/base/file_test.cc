#include "base/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <fstream>
#include <vector>

#include "base/temporary_directory.h"

namespace millrace {
namespace {

class FileTest : public testing::Test {
 protected:
  std::filesystem::path write(const std::string& name, const std::string& content) {
    const auto path = directory_.path() / name;
    std::ofstream(path) << content;
    return path;
  }

  TemporaryDirectory directory_ = *TemporaryDirectory::create();
};

TEST_F(FileTest, ReadsWhatWasWrittenAtAnOffset) {
  const auto path = directory_.path() / "data";
  const File file = *File::open(path, O_RDWR | O_CREAT);
  ASSERT_TRUE(file.write_at(3, bytes_of("abc")).ok());
  std::string out(6, '?');
  ASSERT_TRUE(file.read_exactly_at(0, std::as_writable_bytes(std::span(out))).ok());
  EXPECT_EQ(out, std::string("\0\0\0abc", 6));
  EXPECT_EQ(*file.size_bytes(), 6u);
  EXPECT_TRUE(file.sync().ok());
}

TEST_F(FileTest, AReadPastTheEndReportsWhereTheFileEnds) {
  const File file = *File::open(write("short", "12345"), O_RDONLY);
  std::vector<std::byte> out(8);
  EXPECT_EQ(*file.read_at(2, out), 3u);
  const Status status = file.read_exactly_at(2, out);
  EXPECT_EQ(status.error().code(), Errc::kCorrupt);
  EXPECT_EQ(status.error().message(), "8 bytes are needed at byte 2, but the file ends at 5");
}

TEST_F(FileTest, AMissingFileIsNamed) {
  const auto path = directory_.path() / "absent";
  EXPECT_EQ(File::open(path, O_RDONLY).error().message(),
            path.native() + ": cannot open: no such file or directory");
}

TEST_F(FileTest, AWriteToAFullDeviceSaysWhatToDo) {
  const File full = *File::open("/dev/full", O_WRONLY);
  const Status status = full.write_at(0, bytes_of("x"));
  EXPECT_EQ(status.error().code(), Errc::kExhausted);
  EXPECT_NE(status.error().message().find("free some space"), std::string::npos);
}

TEST_F(FileTest, ReportsTheDescriptorLimit) {
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const auto path = write("some", "x");
  std::vector<File> held;
  const rlimit tight{32, before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &tight);
  Result<File> last = File::open(path, O_RDONLY);
  while (last.ok()) {
    held.push_back(*std::move(last));
    last = File::open(path, O_RDONLY);
  }
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(last.error().code(), Errc::kExhausted);
  EXPECT_NE(last.error().message().find("ulimit -n"), std::string::npos);
}

TEST_F(FileTest, AMovedFromFileIsClosed) {
  File first = *File::open(write("a", "a"), O_RDONLY);
  const int fd = first.fd();
  const File second = std::move(first);
  EXPECT_FALSE(first.is_open());  // NOLINT(bugprone-use-after-move): that is tested here
  EXPECT_EQ(second.fd(), fd);
}

TEST_F(FileTest, ASecondCloseDoesNothing) {
  File file = *File::open(write("a", "a"), O_RDONLY);
  EXPECT_TRUE(file.close().ok());
  EXPECT_FALSE(file.is_open());
  EXPECT_TRUE(file.close().ok());
}

TEST_F(FileTest, ReadFileReadsEmptyLargeAndProcFiles) {
  EXPECT_EQ(*read_file(write("empty", "")), "");
  const std::string large(300'000, 'x');
  EXPECT_EQ(*read_file(write("large", large)), large);
  EXPECT_NE(read_file("/proc/self/status")->find("Name:"), std::string::npos);
  std::ifstream sysctl("/proc/sys/vm/max_map_count");
  std::string count;
  std::getline(sysctl, count);
  EXPECT_EQ(*read_file("/proc/sys/vm/max_map_count"), count + "\n");
}

TEST_F(FileTest, ReadFileRefusesMoreThanItsLimit) {
  const auto path = write("big", std::string(101, 'x'));
  EXPECT_TRUE(read_file(path, 101).ok());
  const auto result = read_file(path, 100);
  EXPECT_EQ(result.error().message(),
            path.native() + ": is larger than the limit of 100 bytes for such a file");
}

TEST_F(FileTest, ReadFileNamesADirectory) {
  const auto result = read_file(directory_.path());
  EXPECT_EQ(result.error().code(), Errc::kInvalidArgument);
  EXPECT_NE(result.error().message().find(directory_.path().native()), std::string::npos);
}

}  // namespace
}  // namespace millrace
