#include "base/atomic_file.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/temporary_directory.h"

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

TEST_F(AtomicFileTest, AppearsWholeAndAlone) {
  ASSERT_TRUE(write_file_atomically(path_, bytes_of("content")).ok());
  EXPECT_EQ(*read_file(path_), "content");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(AtomicFileTest, IsNotThereBeforeCommit) {
  AtomicFile file = *AtomicFile::create(path_);
  ASSERT_TRUE(file.append(bytes_of("half")).ok());
  EXPECT_FALSE(std::filesystem::exists(path_));
  ASSERT_TRUE(file.append(bytes_of(" whole")).ok());
  ASSERT_TRUE(file.commit().ok());
  EXPECT_EQ(*read_file(path_), "half whole");
}

TEST_F(AtomicFileTest, LeavesTheOldFileAndNoTraceWhenGivenUp) {
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

TEST_F(AtomicFileTest, NamesTheFileThatCannotBeMade) {
  const auto absent = directory_.path() / "absent" / "result.json";
  const Status status = write_file_atomically(absent, bytes_of("x"));
  EXPECT_EQ(status.error().message(),
            absent.native() + ": cannot create: no such file or directory");
}

// A file-size limit stands in for a full disk: the write fails half way, with the old file in
// place.
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

}  // namespace
}  // namespace millrace
