#include "base/io/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <thread>
#include <vector>

#include "base/io/input_file.h"
#include "base/io/temporary_directory.h"

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

// Opening a pipe would wait until somebody writes to it.
TEST_F(FileTest, PipesAndSocketsAreRefusedAsInputs) {
  const auto path = directory_.path() / "pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const auto text = read_file(path);
  ASSERT_FALSE(text.ok());
  EXPECT_EQ(text.error().code(), Errc::kInvalidArgument);
  EXPECT_NE(text.error().message().find("is a pipe"), std::string::npos) << text.error().message();
  const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof(address.sun_path), "%s/s", directory_.path().c_str());
  ASSERT_EQ(bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_NE(open_input(address.sun_path).error().message().find("a socket"), std::string::npos);
  close(socket);
}

TEST_F(FileTest, AnInputHasTheFlagsThatWereAskedFor) {
  const File file = *open_input(write("a", "a"), O_NOATIME);
  const int flags = fcntl(file.fd(), F_GETFL);
  EXPECT_EQ(flags & O_NONBLOCK, 0);  // io_uring would not wait for slow files
  EXPECT_NE(flags & O_NOATIME, 0);
  EXPECT_NE(fcntl(file.fd(), F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_EQ(open_input(directory_.path() / "missing").error().code(), Errc::kNotFound);
}

TEST_F(FileTest, AFileWithALeaseIsWaitedFor) {
  const auto path = write("leased", "bytes");
  const File holder = *File::open(path, O_RDWR);
  signal(SIGIO, SIG_IGN);
  if (fcntl(holder.fd(), F_SETLEASE, F_WRLCK) != 0) GTEST_SKIP() << "no leases here";
  std::thread gives_up([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    fcntl(holder.fd(), F_SETLEASE, F_UNLCK);
  });
  EXPECT_EQ(*read_file(path), "bytes");
  gives_up.join();
  signal(SIGIO, SIG_DFL);
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

TEST(RenameToNew, ReplacesNothing) {
  const TemporaryDirectory directory = *TemporaryDirectory::create();
  const auto path = [&](const char* name) { return directory.path() / name; };
  for (const char* name : {"a", "b"}) std::ofstream(path(name)) << name;
  std::filesystem::create_symlink("nowhere", path("link"));
  EXPECT_EQ(rename_to_new(path("a"), path("b")), EEXIST);
  EXPECT_EQ(rename_to_new(path("a"), path("link")), EEXIST);
  EXPECT_EQ(rename_to_new(path("none"), path("c")), ENOENT);
  EXPECT_EQ(rename_to_new(path("a"), path("c")), 0);
  EXPECT_EQ(*read_file(path("b")), "b");
  EXPECT_EQ(*read_file(path("c")), "a");
}

}  // namespace
}  // namespace millrace
