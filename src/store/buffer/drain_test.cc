// What programs see of the buffer, and the order in which the upper directory changes.
#include "store/buffer/drain.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "store/testing/buffer_case.h"

namespace millrace::store {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using testing::HasSubstr;

constexpr milliseconds kLong{60'000};
constexpr int kWrite = O_WRONLY | O_CREAT | O_TRUNC;

class DrainTest : public BufferCase {};

TEST_F(DrainTest, AFileIsReadAtOnceAndCopiedWhenItIsClosed) {
  const Writer writer = open_writer("ckpt", "content", kWrite, 0640);
  EXPECT_EQ(read("ckpt"), "content");
  const auto drainer = drain();
  EXPECT_THAT(reasons(flush()), HasSubstr("ckpt: a program still has it open"));
  EXPECT_EQ(read_upper("ckpt"), "-");
  close_writer(writer);
  EXPECT_EQ(reasons(flush()), "");
  EXPECT_EQ(read_upper("ckpt"), "content");
  EXPECT_EQ(read("ckpt"), "content");
  struct stat info = {};
  ASSERT_EQ(::stat((upper / "ckpt").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0640u & ~0022u);
  EXPECT_EQ(drainer->finish().size(), 0u);
  EXPECT_FALSE(fs::exists(directory));
}

TEST_F(DrainTest, AnEmptyQueueIsAnEmptyJournal) {
  write("a", "1");
  write("b", "2");
  remove("b");
  const auto drainer = drain();
  EXPECT_EQ(reasons(flush()), "");
  const auto journal = BufferJournal::open(directory);
  ASSERT_TRUE(journal.ok());
  EXPECT_EQ(fs::file_size(directory / "journal"), journal->header_bytes());
  EXPECT_TRUE(fs::is_empty(directory / "names"));
  EXPECT_TRUE(fs::is_empty(directory / "data"));
  EXPECT_EQ(wait_native(buffer(), "a"), 0);
}

TEST_F(DrainTest, RenamesAndRemovalsAreLocalAtOnce) {
  fs::create_directory(upper / "dir");
  write("a.tmp", "new");
  rename("a.tmp", "dir/a");
  EXPECT_EQ(read("a.tmp"), "-");
  EXPECT_EQ(read("dir/a"), "new");
  remove("dir/a");
  EXPECT_EQ(read("dir/a"), "-");
  EXPECT_EQ(remove_buffered(buffer(), "dir/a"), -ENOENT);
  EXPECT_EQ(rename_buffered(buffer(), "dir/a", "b", 0), -ENOENT);
  EXPECT_EQ(drain()->finish().size(), 0u);
  EXPECT_TRUE(upper_files().empty());
}

TEST_F(DrainTest, ErrorsAreThoseOfTheKernel) {
  fs::create_directory(upper / "dir");
  std::ofstream(upper / "old") << "old";
  write("new", "1");
  uint64_t id = 0;
  const auto open = [&](const char* path, int flags) {
    return open_buffered(buffer(), path, flags, 0644, &id);
  };
  EXPECT_EQ(open("new", O_WRONLY | O_CREAT | O_EXCL), -EEXIST);
  EXPECT_EQ(open("old", O_WRONLY | O_CREAT | O_EXCL), -EEXIST);
  EXPECT_EQ(open("missing", O_WRONLY), -ENOENT);
  EXPECT_EQ(open("missing/x", kWrite), -ENOENT);
  EXPECT_EQ(open("old/x", kWrite), -ENOTDIR);
  EXPECT_EQ(open("dir", kWrite), kNotBuffered);
  EXPECT_EQ(open("old", O_WRONLY | O_APPEND), kNotBuffered);
  EXPECT_EQ(rename_buffered(buffer(), "new", "dir", 0), -EISDIR);
  EXPECT_EQ(rename_buffered(buffer(), "new", "old", 1 /* RENAME_NOREPLACE */), -EEXIST);
  EXPECT_EQ(rename_buffered(buffer(), "new", "missing/x", 0), -ENOENT);
  EXPECT_EQ(rename_buffered(buffer(), "old", "new", 0), kNotBuffered);
  EXPECT_EQ(remove_buffered(buffer(), "missing"), -ENOENT);
  EXPECT_EQ(remove_buffered(buffer(), "dir"), -EISDIR);
}

TEST_F(DrainTest, GlobsSelectNames) {
  const Buffer some = {.globs = std::string_view("*.pt\0ckpt/[0-9]*\0", 17)};
  EXPECT_TRUE(is_buffered_name(some, "deep/dir/model.pt"));
  EXPECT_TRUE(is_buffered_name(some, "ckpt/10/shard"));
  EXPECT_FALSE(is_buffered_name(some, "ckpt/x"));
  EXPECT_FALSE(is_buffered_name(some, "log"));
  EXPECT_FALSE(is_buffered_name({}, "log"));
}

TEST_F(DrainTest, AnOldFileIsRewrittenAsOne) {
  std::ofstream(upper / "ckpt") << "old";
  ASSERT_EQ(::chmod((upper / "ckpt").c_str(), 0604), 0);
  const Writer writer = open_writer("ckpt", "part");
  const auto drainer = drain();
  flush();
  EXPECT_EQ(read_upper("ckpt"), "old");
  EXPECT_EQ(read("ckpt"), "part");
  close_writer(writer);
  EXPECT_EQ(drainer->finish().size(), 0u);
  EXPECT_EQ(read_upper("ckpt"), "part");
  struct stat info = {};
  ASSERT_EQ(::stat((upper / "ckpt").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0604u);
}

TEST_F(DrainTest, ARenameOrARemovalBeforeTheCloseCounts) {
  std::ofstream(upper / "a") << "old a";
  std::ofstream(upper / "c") << "old c";
  const Writer renamed = open_writer("a", "renamed");
  const Writer removed = open_writer("c", "removed");
  rename("a", "b");
  remove("c");
  close_writer(renamed);
  close_writer(removed);
  EXPECT_EQ(drain()->finish().size(), 0u);
  const std::map<std::string, std::string> expected = {{"b", "renamed"}};
  EXPECT_EQ(upper_files(), expected);
}

TEST_F(DrainTest, AFileThatIsRewrittenWhileItWaitsHasBothContentsInTurn) {
  write("ckpt", "first");
  write("ckpt", "second");
  rename("ckpt", "final");
  write("ckpt", "third");
  EXPECT_EQ(read("final"), "second");
  EXPECT_EQ(read("ckpt"), "third");
  EXPECT_EQ(drain()->finish().size(), 0u);
  const std::map<std::string, std::string> expected = {{"ckpt", "third"}, {"final", "second"}};
  EXPECT_EQ(upper_files(), expected);
}

TEST_F(DrainTest, LatestNeverComesBeforeItsCheckpoint) {
  constexpr int kCount = 40;
  const std::string content(300'000, 'x');
  std::atomic<bool> ends = false;
  std::atomic<int> wrong_count = 0;
  std::atomic<int> seen_count = 0;
  std::thread observer([&] {
    while (!ends) {
      const std::string latest = read_upper("latest");
      if (latest == "-") continue;
      ++seen_count;
      // The one before the latest may be gone already; then a newer one is the latest.
      if (read_upper(latest) != content && read_upper("latest") == latest) ++wrong_count;
    }
  });
  const auto drainer = drain();
  for (int i = 0; i < kCount; ++i) {
    const std::string name = "step-" + std::to_string(i);
    write(name + ".tmp", content);
    rename(name + ".tmp", name);
    write("latest.tmp", name);
    rename("latest.tmp", "latest");
    if (i > 0) remove("step-" + std::to_string(i - 1));
  }
  EXPECT_EQ(reasons(flush()), "");
  ends = true;
  observer.join();
  EXPECT_EQ(wrong_count, 0);
  EXPECT_GT(seen_count, 0);
  EXPECT_EQ(upper_files().size(), 2u);
}

TEST_F(DrainTest, ManyWritersKeepAFileUntilTheLastOneCloses) {
  const Writer first = open_writer("shared", "one");
  const Writer second = open_writer("shared", "two", O_WRONLY | O_APPEND);
  EXPECT_EQ(second.id, first.id);
  close_writer(first);
  const auto drainer = drain();
  EXPECT_THAT(reasons(flush()), HasSubstr("shared: a program still has"));
  EXPECT_EQ(read_upper("shared"), "-");
  close_writer(second);
  EXPECT_EQ(reasons(flush()), "");
  EXPECT_EQ(read_upper("shared"), "onetwo");
}

TEST_F(DrainTest, AFileWhoseWriterWasKilledIsCopiedAsItIs) {
  const pid_t child = ::fork();
  if (child == 0) {
    open_writer("killed", "what it had");
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  const auto drainer = drain(milliseconds(1));
  for (int i = 0; i < 1000 && read_upper("killed") == "-"; ++i) ::usleep(10'000);
  EXPECT_EQ(read_upper("killed"), "what it had");
  EXPECT_EQ(drainer->finish().size(), 0u);
}

TEST_F(DrainTest, AttributesFollowTheFile) {
  write("a", "1");
  write("b", "2");
  const timespec times[2] = {{.tv_sec = 5, .tv_nsec = 0}, {.tv_sec = 1234, .tv_nsec = 5}};
  const auto drainer = drain();
  for (const char* path : {"a", "b"}) {
    // Before, while or after it is copied.
    int result = set_mode_buffered(buffer(), path, 0600);
    if (result == kNotBuffered) result = ::chmod((upper / path).c_str(), 0600);
    EXPECT_EQ(result, 0);
    result = set_times_buffered(buffer(), path, times);
    if (result == kNotBuffered) {
      result = ::utimensat(AT_FDCWD, (upper / path).c_str(), times, 0);
    }
    EXPECT_EQ(result, 0);
  }
  EXPECT_EQ(drainer->finish().size(), 0u);
  for (const char* path : {"a", "b"}) {
    struct stat info = {};
    ASSERT_EQ(::stat((upper / path).c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 07777, 0600u);
    EXPECT_EQ(info.st_mtim.tv_sec, 1234);
  }
}

TEST_F(DrainTest, HolesTakeNoRoom) {
  constexpr off_t kSizeBytes = off_t{256} << 20;
  const Writer writer = open_writer("sparse", "begin");
  ASSERT_EQ(::ftruncate(writer.fd, kSizeBytes - 3), 0);
  ASSERT_EQ(::pwrite(writer.fd, "end", 3, kSizeBytes - 3), 3);
  close_writer(writer);
  EXPECT_EQ(drain()->finish().size(), 0u);
  struct stat info = {};
  ASSERT_EQ(::stat((upper / "sparse").c_str(), &info), 0);
  EXPECT_EQ(info.st_size, kSizeBytes);
  EXPECT_LT(info.st_blocks * 512, off_t{1} << 20);
  const auto copy = File::open(upper / "sparse", O_RDONLY);
  char ends[8] = {};
  ASSERT_TRUE(copy.ok());
  EXPECT_EQ(::pread(copy->fd(), ends, 5, 0), 5);
  EXPECT_EQ(::pread(copy->fd(), ends + 5, 3, kSizeBytes - 3), 3);
  EXPECT_EQ(std::string_view(ends, sizeof(ends)), "beginend");
}

TEST_F(DrainTest, AListingHasFilesAndRemovedNames) {
  fs::create_directory(upper / "dir");
  std::ofstream(upper / "dir/old") << "old";
  write("dir/a", "1");
  write("dir/b", "2");
  rename("dir/b", "dir/c");
  remove("dir/old");
  const int names = open_names(buffer(), "dir");
  ASSERT_GE(names, 0);
  NameReader reader;
  BufferedName name;
  std::map<std::string, Buffered> found;
  while (next_name(names, reader, name) == 1) found[name.text] = name.kind;
  ::close(names);
  const std::map<std::string, Buffered> expected = {{"a", Buffered::kFile},
                                                    {"b", Buffered::kRemoved},
                                                    {"c", Buffered::kFile},
                                                    {"old", Buffered::kRemoved}};
  EXPECT_EQ(found, expected);
  EXPECT_EQ(open_names(buffer(), "other"), -ENOENT);
}

TEST_F(DrainTest, WaitingForAnOrdinaryFileEndsWhenItIsOne) {
  write("ckpt", "content");
  const auto drainer = drain();
  EXPECT_EQ(wait_native(buffer(), "ckpt"), 0);
  EXPECT_EQ(read_upper("ckpt"), "content");
}

TEST(BufferedWriters, TheLastDescriptorOfTheProcessCloses) {
  const auto writers = std::make_unique<BufferedWriters>();
  EXPECT_EQ(writers->take(5), 0u);
  writers->add(5, 77);
  writers->duplicated(5, 9);
  writers->duplicated(6, 10);
  EXPECT_EQ(writers->id_of(9), 77u);
  EXPECT_EQ(writers->id_of(10), 0u);
  EXPECT_EQ(writers->take(5), 0u);
  EXPECT_EQ(writers->take(9), 77u);
  EXPECT_EQ(writers->take(9), 0u);
  writers->add(5, 78);
  const pid_t child = ::fork();
  if (child == 0) ::_exit(writers->take(5) == 0 && writers->id_of(5) == 0 ? 0 : 1);
  int status = 1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(writers->take(5), 78u);
}

}  // namespace
}  // namespace millrace::store
