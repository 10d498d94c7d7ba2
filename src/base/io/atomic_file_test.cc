#include "base/io/atomic_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io/temporary_directory.h"

namespace millrace {
namespace {

class AtomicFileTest : public testing::Test {
 protected:
  size_t entries() const {
    size_t count = 0;
    for ([[maybe_unused]] const auto& entry :
         std::filesystem::directory_iterator(directory_.path())) {
      ++count;
    }
    return count;
  }

  TemporaryDirectory directory_ = *TemporaryDirectory::create();
  std::filesystem::path path_ = directory_.path() / "result.json";
};

TEST_F(AtomicFileTest, AppearsCompleteAndLeavesNoOtherFile) {
  ASSERT_TRUE(write_file_atomically(path_, bytes_of("content")).ok());
  EXPECT_EQ(*read_file(path_), "content");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(AtomicFileTest, DoesNotExistBeforeCommit) {
  AtomicFile file = *AtomicFile::create(path_);
  ASSERT_TRUE(file.append(bytes_of("half")).ok());
  EXPECT_FALSE(std::filesystem::exists(path_));
  ASSERT_TRUE(file.append(bytes_of(" whole")).ok());
  ASSERT_TRUE(file.commit().ok());
  EXPECT_EQ(*read_file(path_), "half whole");
}

TEST_F(AtomicFileTest, LeavesOnlyTheOldFileIfNotCommitted) {
  ASSERT_TRUE(write_file_atomically(path_, bytes_of("old")).ok());
  {
    AtomicFile file = *AtomicFile::create(path_);
    ASSERT_TRUE(file.append(bytes_of("new")).ok());
  }
  EXPECT_EQ(*read_file(path_), "old");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(AtomicFileTest, KeepsThePermissionsOfWhatItReplaces) {
  ASSERT_TRUE(write_file_atomically(path_, bytes_of("old")).ok());
  ASSERT_EQ(chmod(path_.c_str(), 0640), 0);
  ASSERT_TRUE(write_file_atomically(path_, bytes_of("new")).ok());
  struct stat info{};
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0640u);
}

TEST_F(AtomicFileTest, NamesTheFileThatCannotBeCreated) {
  const auto absent = directory_.path() / "absent" / "result.json";
  const Status status = write_file_atomically(absent, bytes_of("x"));
  EXPECT_EQ(status.error().message(),
            absent.native() + ": cannot create: no such file or directory");
}

// A file-size limit simulates a full disk: the write fails half way while the old file exists.
TEST_F(AtomicFileTest, AFailedWriteLeavesTheOldFile) {
  ASSERT_TRUE(write_file_atomically(path_, bytes_of("old")).ok());
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit tight{1024, 1024};
    setrlimit(RLIMIT_FSIZE, &tight);
    const Status status = write_file_atomically(path_, bytes_of(std::string(4096, 'n')));
    _exit(status.ok() ? 0 : 42);
  }
  int wait_status = 0;
  ASSERT_EQ(waitpid(child, &wait_status, 0), child);
  EXPECT_EQ(WEXITSTATUS(wait_status), 42);
  EXPECT_EQ(*read_file(path_), "old");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(AtomicFileTest, AWriterKilledBeforeCommitLeavesTheOldFile) {
  ASSERT_TRUE(write_file_atomically(path_, bytes_of("old")).ok());
  const pid_t child = fork();
  if (child == 0) {
    AtomicFile file = *AtomicFile::create(path_);
    static_cast<void>(file.append(bytes_of("new")).ok());
    kill(getpid(), SIGKILL);
  }
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_EQ(*read_file(path_), "old");
}

mode_t kind_of(const std::filesystem::path& path) {
  struct stat info{};
  return lstat(path.c_str(), &info) == 0 ? info.st_mode & S_IFMT : 0;
}

// A copy of /dev/null, never the real one: a bug here would replace it for the whole machine.
bool make_null_device(const std::filesystem::path& path) {
  return mknod(path.c_str(), S_IFCHR | 0666, makedev(1, 3)) == 0;
}

TEST_F(AtomicFileTest, WritesIntoADeviceAndDoesNotReplaceIt) {
  if (!make_null_device(path_)) GTEST_SKIP() << "only root may make a device node";
  EXPECT_TRUE(write_file_atomically(path_, bytes_of("content")).ok());
  EXPECT_EQ(kind_of(path_), mode_t{S_IFCHR});
  EXPECT_EQ(entries(), 1u);
}

TEST_F(AtomicFileTest, WritesIntoAPipe) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  const File reader = *File::open(path_, O_RDONLY | O_NONBLOCK);
  EXPECT_TRUE(write_file_atomically(path_, bytes_of("content")).ok());
  EXPECT_EQ(kind_of(path_), mode_t{S_IFIFO});
  char read_bytes[16] = {};
  EXPECT_EQ(read(reader.fd(), read_bytes, sizeof(read_bytes)), 7);
  EXPECT_STREQ(read_bytes, "content");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(AtomicFileTest, ReplacesTheFileThatALinkPointsTo) {
  const auto target = directory_.path() / "target.json";
  ASSERT_TRUE(write_file_atomically(target, bytes_of("old")).ok());
  std::filesystem::create_symlink("target.json", path_);
  AtomicFile file = *AtomicFile::create(path_);
  ASSERT_TRUE(file.append(bytes_of("new")).ok());
  EXPECT_EQ(*read_file(target), "old") << "the target is replaced at commit, not before";
  ASSERT_TRUE(file.commit().ok());
  EXPECT_EQ(kind_of(path_), mode_t{S_IFLNK});
  EXPECT_EQ(kind_of(target), mode_t{S_IFREG});
  EXPECT_EQ(*read_file(target), "new");
  EXPECT_EQ(entries(), 2u);
}

TEST_F(AtomicFileTest, FollowsALinkIntoAnotherDirectory) {
  const auto other = directory_.path() / "other";
  std::filesystem::create_directory(other);
  std::filesystem::create_symlink("other/second", path_);
  std::filesystem::create_symlink("target.json", other / "second");
  ASSERT_TRUE(write_file_atomically(path_, bytes_of("new")).ok());
  EXPECT_EQ(kind_of(path_), mode_t{S_IFLNK});
  EXPECT_EQ(kind_of(other / "second"), mode_t{S_IFLNK});
  EXPECT_EQ(*read_file(other / "target.json"), "new");
}

TEST_F(AtomicFileTest, WritesIntoTheDeviceThatALinkPointsTo) {
  const auto device = directory_.path() / "null";
  if (!make_null_device(device)) GTEST_SKIP() << "only root may make a device node";
  std::filesystem::create_symlink(device, path_);
  EXPECT_TRUE(write_file_atomically(path_, bytes_of("content")).ok());
  EXPECT_EQ(kind_of(path_), mode_t{S_IFLNK});
  EXPECT_EQ(kind_of(device), mode_t{S_IFCHR});
  EXPECT_EQ(entries(), 2u);
}

TEST_F(AtomicFileTest, CreatesTheFileThatADanglingLinkPointsTo) {
  std::filesystem::create_symlink("target.json", path_);
  ASSERT_TRUE(write_file_atomically(path_, bytes_of("content")).ok());
  EXPECT_EQ(kind_of(path_), mode_t{S_IFLNK});
  EXPECT_EQ(*read_file(directory_.path() / "target.json"), "content");
  EXPECT_EQ(entries(), 2u);
}

TEST_F(AtomicFileTest, RefusesADirectoryInCreate) {
  std::filesystem::create_directory(path_);
  const auto file = AtomicFile::create(path_);
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().message(), path_.native() + ": cannot open: is a directory");
}

TEST_F(AtomicFileTest, RefusesALoopOfLinks) {
  std::filesystem::create_symlink("result.json", path_);
  const auto file = AtomicFile::create(path_);
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().message(),
            path_.native() + ": cannot create: too many levels of symbolic links");
}

// Like /dev/stdout: the shell may have opened the file for appending.
TEST_F(AtomicFileTest, ContinuesInAnOpenDescriptor) {
  const File open = *File::open(path_, O_WRONLY | O_CREAT | O_APPEND);
  ASSERT_EQ(write(open.fd(), "before ", 7), 7);
  const auto link = directory_.path() / "stdout";
  std::filesystem::create_symlink(fmt::format("/proc/self/fd/{}", open.fd()), link);
  ASSERT_TRUE(write_file_atomically(link, bytes_of("content")).ok());
  ASSERT_EQ(write(open.fd(), " after", 6), 6);
  EXPECT_EQ(*read_file(path_), "before content after");
  EXPECT_EQ(kind_of(link), mode_t{S_IFLNK});
}

TEST(CreateBeside, GivesNamesThatAreRecognised) {
  const TemporaryDirectory directory = *TemporaryDirectory::create();
  const auto one = create_beside(directory.path() / "owned", 0600);
  const auto other = create_beside(directory.path() / "owned", 0600);
  ASSERT_TRUE(one.ok() && other.ok());
  EXPECT_NE(one->path, other->path);
  EXPECT_TRUE(is_temporary_name(one->path.filename().native(), "owned"));
  for (const char* name : {"owned", ".owned", ".owned.1", ".owned.1.", ".owned.x.1", ".owned.1.x",
                           ".owned.next.1.2", ".owned.1.2.3", ".own.1.2"}) {
    EXPECT_FALSE(is_temporary_name(name, "owned")) << name;
  }
}

}  // namespace
}  // namespace millrace
