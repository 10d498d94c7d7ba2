// What goes wrong: damaged journals, upper directories that fail, buffers that are left over.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "store/buffer/drain.h"
#include "store/buffer/durable_file.h"
#include "store/testing/buffer_case.h"

namespace millrace::store {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using testing::HasSubstr;

constexpr milliseconds kLong{60'000};

class DrainFaultsTest : public BufferCase {
 protected:
  std::string journal_bytes() const { return *read_file(directory / "journal"); }
  void set_journal(const std::string& bytes) const {
    std::ofstream(directory / "journal", std::ios::binary | std::ios::trunc) << bytes;
  }
  // As if the machine had been started again.
  void change_boot_id() const {
    std::string bytes = journal_bytes();
    wire::BufferHeader header = {};
    std::memcpy(&header, bytes.data(), sizeof(header));
    header.boot_id[0] = header.boot_id[0] == '0' ? '1' : '0';
    std::memcpy(bytes.data(), &header, sizeof(header));
    header.crc = wire::buffer_crc(bytes.data() + wire::kBufferHeaderUnchecked,
                                  header.size_bytes - wire::kBufferHeaderUnchecked);
    std::memcpy(bytes.data(), &header, sizeof(header));
    set_journal(bytes);
  }
  size_t data_count() const {
    return static_cast<size_t>(
        std::distance(fs::directory_iterator(directory / "data"), fs::directory_iterator()));
  }
};

TEST_F(DrainFaultsTest, ATornRecordAtTheEndIsIgnored) {
  write("a", "1");
  const size_t before = journal_bytes().size();
  const Writer writer = open_writer("torn", "2");
  ::close(writer.fd);
  set_journal(journal_bytes().substr(0, journal_bytes().size() - 3));
  ASSERT_GT(journal_bytes().size(), before);
  write("b", "3");
  auto drainer = drain();
  // The record that follows the torn one is found. The data without a record is kept.
  const auto kept = drainer->finish();
  EXPECT_EQ(read_upper("a"), "1");
  EXPECT_EQ(read_upper("b"), "3");
  EXPECT_THAT(reasons(kept), HasSubstr("no record of the journal names it"));
  EXPECT_EQ(data_count(), 1u);
}

TEST_F(DrainFaultsTest, AnyDamagedByteOfTheJournalLosesNoData) {
  write("a", "content of a");
  write("b.tmp", "content of b");
  rename("b.tmp", "b");
  const std::string intact = journal_bytes();
  const auto header_bytes = BufferJournal::open(directory)->header_bytes();
  for (size_t at = header_bytes; at < intact.size(); at += 7) {
    uint64_t used = 0;
    uint64_t damaged = 0;
    std::string bytes = intact.substr(header_bytes);
    bytes[at - header_bytes] = static_cast<char>(bytes[at - header_bytes] ^ 0x10);
    EXPECT_LE(parse_journal(bytes, &used, &damaged).size(), 4u) << at;
    EXPECT_LE(used, bytes.size());
  }
  std::string bytes = intact;
  bytes[header_bytes + 20] = static_cast<char>(bytes[header_bytes + 20] ^ 1);  // `a` was opened
  set_journal(bytes);
  const auto kept = drain()->finish();
  EXPECT_EQ(read_upper("b"), "content of b");
  EXPECT_EQ(read_upper("a"), "-");
  EXPECT_THAT(reasons(kept), HasSubstr("no record of the journal names it"));
  EXPECT_THAT(reasons(kept), HasSubstr("bytes of the journal are damaged"));
  EXPECT_EQ(data_count(), 1u);
  EXPECT_EQ(journal_bytes(), bytes);
}

TEST_F(DrainFaultsTest, ADamagedHeaderIsRefused) {
  std::string bytes = journal_bytes();
  for (const size_t at : {0u, 9u, 13u, 17u, 21u, 30u, 70u}) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 4);
    set_journal(damaged);
    EXPECT_FALSE(BufferJournal::open(directory).ok()) << at;
  }
  set_journal(bytes.substr(0, 63));
  EXPECT_FALSE(BufferJournal::open(directory).ok());
  EXPECT_EQ(find_left_buffers(directory.parent_path()).size(), 1u);
}

// All threads of this process, for good.
bool refuse_flock() {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_flock, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EIO),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program = {.len = std::size(filter), .filter = filter};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
}

TEST_F(DrainFaultsTest, AJournalThatCannotBeLockedIsNotTakenForAnEmptyOne) {
  int refused[2];
  int written[2];
  ASSERT_EQ(::pipe(refused), 0);
  ASSERT_EQ(::pipe(written), 0);
  const pid_t drainer = ::fork();
  ASSERT_GE(drainer, 0);
  if (drainer == 0) {
    char go = 0;
    const auto own = drain();
    if (own == nullptr || !refuse_flock()) ::_exit(1);
    if (::write(refused[1], "1", 1) != 1 || ::read(written[0], &go, 1) != 1) ::_exit(2);
    const auto kept = own->finish();
    const bool is_named = kept.size() == 1 && kept[0].data == directory &&
                          kept[0].reason.starts_with("cannot lock the journal");
    ::_exit(is_named ? 0 : 3);
  }
  ::close(refused[1]);
  char go = 0;
  if (::read(refused[0], &go, 1) == 1) write("a", "1");
  EXPECT_EQ(::write(written[1], "1", 1), 1);
  int status = 0;
  EXPECT_EQ(::waitpid(drainer, &status, 0), drainer);
  for (const int fd : {refused[0], written[0], written[1]}) ::close(fd);
  EXPECT_EQ(status, 0) << WEXITSTATUS(status);
  EXPECT_EQ(reasons(drain()->finish()), "");
  EXPECT_EQ(read_upper("a"), "1");
}

TEST_F(DrainFaultsTest, AFullUpperDirectoryStopsTheQueueAndLosesNothing) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  ASSERT_EQ(::mount("none", upper.c_str(), "tmpfs", 0, "size=1m"), 0);
  write("small", "1");
  write("large", std::string(2 << 20, 'x'));
  write("latest", "large");
  auto drainer = drain();
  const std::string first = reasons(flush());
  EXPECT_THAT(first, HasSubstr("large: " + (upper / "large").string()));
  EXPECT_THAT(first, HasSubstr("no space left"));
  EXPECT_THAT(first, HasSubstr("latest: waits in the queue"));
  EXPECT_EQ(read_upper("small"), "1");
  EXPECT_EQ(read("large").size(), size_t{2 << 20});
  const auto kept = drainer->finish();
  EXPECT_EQ(kept.size(), 2u);
  EXPECT_EQ(upper_files().size(), 1u) << "a temporary file was left";
  EXPECT_EQ(data_count(), 2u);
  EXPECT_THAT(log, HasSubstr("tried again"));
  drainer.reset();
  // With more room, another process goes on.
  ASSERT_EQ(::mount("none", upper.c_str(), "tmpfs", MS_REMOUNT, "size=9m"), 0);
  EXPECT_EQ(reasons(drain()->finish()), "");
  EXPECT_EQ(read_upper("large").size(), size_t{2 << 20});
  EXPECT_EQ(read_upper("latest"), "large");
  ::umount(upper.c_str());
}

TEST_F(DrainFaultsTest, AReadOnlyUpperDirectoryStopsTheQueueUntilItIsWritable) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  ASSERT_EQ(::mount("none", upper.c_str(), "tmpfs", 0, "size=1m"), 0);
  std::ofstream(upper / "old") << "old";
  write("a", "1");
  remove("old");
  ASSERT_EQ(::mount("none", upper.c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, "size=1m"), 0);
  auto drainer = drain();
  EXPECT_THAT(reasons(flush()), HasSubstr("read-only"));
  uint64_t id = 0;
  EXPECT_EQ(open_buffered(buffer(), "b", O_WRONLY | O_CREAT, 0644, &id), -EROFS);
  EXPECT_EQ(read_upper("old"), "old");
  ASSERT_EQ(::mount("none", upper.c_str(), "tmpfs", MS_REMOUNT, "size=1m"), 0);
  EXPECT_EQ(reasons(flush()), "");
  const std::map<std::string, std::string> expected = {{"a", "1"}};
  EXPECT_EQ(upper_files(), expected);
  ::umount(upper.c_str());
}

TEST_F(DrainFaultsTest, AMissingUpperDirectoryIsNotCreated) {
  fs::create_directories(upper / "dir");
  write("dir/a", "1");
  fs::rename(upper, top.path() / "elsewhere");
  EXPECT_THAT(reasons(drain()->finish()), HasSubstr("no such file or directory"));
  EXPECT_FALSE(fs::exists(upper));
  EXPECT_EQ(data_count(), 1u);
  fs::create_directory(upper);  // but directories below it are
  EXPECT_EQ(reasons(drain()->finish()), "");
  EXPECT_EQ(read_upper("dir/a"), "1");
}

TEST_F(DrainFaultsTest, ARenameToAnotherFileSystemIsACopy) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  fs::create_directory(upper / "mounted");
  ASSERT_EQ(::mount("none", (upper / "mounted").c_str(), "tmpfs", 0, "size=1m"), 0);
  write("a", "content");
  rename("a", "mounted/a");
  EXPECT_EQ(reasons(drain()->finish()), "");
  const std::map<std::string, std::string> expected = {{"mounted/a", "content"}};
  EXPECT_EQ(upper_files(), expected);
  ::umount((upper / "mounted").c_str());
}

TEST_F(DrainFaultsTest, ACopyThatVanishedIsCopiedAgainForItsRename) {
  const Writer blocker = open_writer("blocker", "x");
  write("a", "content");
  ASSERT_EQ(note_closed(buffer(), blocker.id), 0);  // not quite: keeps the rename waiting
  rename("a", "b");
  auto drainer = drain();
  flush();
  EXPECT_EQ(read_upper("a"), "content");
  fs::remove(upper / "a");
  ::close(blocker.fd);
  EXPECT_EQ(reasons(drainer->finish()), "");
  const std::map<std::string, std::string> expected = {{"b", "content"}, {"blocker", "x"}};
  EXPECT_EQ(upper_files(), expected);
}

TEST_F(DrainFaultsTest, LaterBytesDoNotOvertakeWhatHappenedInBetween) {
  write("latest", "1");
  const Writer blocker = open_writer("ckpt-2", "content");
  ASSERT_EQ(note_closed(buffer(), blocker.id), 0);  // not quite
  close_writer(open_writer("latest", "2", O_WRONLY));
  auto drainer = drain();
  flush();
  EXPECT_EQ(read_upper("latest"), "-") << "the checkpoint that it names is not there";
  ::close(blocker.fd);
  EXPECT_EQ(reasons(drainer->finish()), "");
  const std::map<std::string, std::string> expected = {{"ckpt-2", "content"}, {"latest", "2"}};
  EXPECT_EQ(upper_files(), expected);
}

TEST_F(DrainFaultsTest, ForeignFilesAtTemporaryNamesSurvive) {
  const Writer writer = open_writer("a", "1");
  const fs::path foreign = temporary_copy(upper / "a", writer.id);
  std::ofstream(foreign) << "mine";
  close_writer(writer);
  EXPECT_EQ(reasons(drain()->finish()), "");
  EXPECT_EQ(*read_file(foreign), "mine");
}

TEST_F(DrainFaultsTest, TheTemporaryFileOfAKilledDrainerIsRemoved) {
  write("a", "1");
  wire::BufferProgress progress = *BufferJournal::open(directory)->read_progress();
  progress.copy_token = 5;
  ASSERT_TRUE(BufferJournal::open(directory)->write_progress(progress, false).ok());
  std::ofstream(temporary_copy(upper / "a", 5)) << "half";
  EXPECT_EQ(reasons(drain()->finish()), "");
  EXPECT_EQ(upper_files().size(), 1u);
}

TEST_F(DrainFaultsTest, WhatWasExecutedIsNotRepeatedByTheNextDrainer) {
  std::ofstream(upper / "ckpt") << "old";
  const Writer open = open_writer("log", "1");  // keeps the journal
  write("other", "x");
  remove("ckpt");
  auto drainer = drain();
  EXPECT_EQ(flush().size(), 1u);
  EXPECT_EQ(read_upper("ckpt"), "-");
  drainer.reset();
  std::ofstream(upper / "ckpt") << "written by another node";
  drainer = drain();
  EXPECT_EQ(flush().size(), 1u);
  EXPECT_EQ(read_upper("ckpt"), "written by another node");
  close_writer(open);
  EXPECT_EQ(reasons(drainer->finish()), "");
}

TEST_F(DrainFaultsTest, ADirectoryInThePlaceOfAnotherKeepsItsFiles) {
  for (const char* name : {"ck", "other"}) {
    fs::create_directory(upper / name);
    std::ofstream(upper / name / "old") << name;
    std::ofstream(upper / name / "step") << name;
  }
  const Writer first = open_writer("first", "");
  EXPECT_EQ(note_closed(buffer(), first.id), 0);  // still open: what follows has to wait
  write("ck/step", "of the job");
  remove("ck/old");
  {
    const auto drainer = drain();
    write("ck/later", "too");
    flush();
  }
  ::close(first.fd);
  fs::rename(upper / "ck", upper / "moved");
  fs::rename(upper / "other", upper / "ck");
  EXPECT_THAT(reasons(drain()->finish()), HasSubstr("its directory is another one"));
  const std::map<std::string, std::string> kept = {{"first", ""},
                                                   {"ck/old", "other"},
                                                   {"ck/step", "other"},
                                                   {"moved/old", "ck"},
                                                   {"moved/step", "ck"}};
  EXPECT_EQ(upper_files(), kept);
  fs::rename(upper / "ck", upper / "other");
  fs::rename(upper / "moved", upper / "ck");
  EXPECT_EQ(reasons(drain()->finish()), "");
  EXPECT_EQ(read_upper("ck/step"), "of the job");
  EXPECT_EQ(read_upper("ck/old"), "-");
  EXPECT_EQ(read_upper("other/old"), "other");
}

TEST_F(DrainFaultsTest, ALostProgressIsRefused) {
  write("a", "1");
  fs::resize_file(directory / "progress", 7);
  EXPECT_FALSE(BufferDrain::start({.directory = directory}).ok());
  EXPECT_EQ(data_count(), 1u);
}

TEST_F(DrainFaultsTest, OneProcessDrains) {
  const auto drainer = drain();
  const auto second = BufferDrain::start({.directory = directory});
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.error().message(), HasSubstr("another process"));
}

TEST_F(DrainFaultsTest, ALeftBufferIsNamedAndNotTouched) {
  write("a", "12345");
  remove("a");
  {
    const auto drainer = BufferDrain::start({.directory = directory});
    EXPECT_TRUE(find_left_buffers(directory.parent_path()).empty()) << "its job runs";
    drainer->get()->finish();
  }
  EXPECT_TRUE(find_left_buffers(directory.parent_path()).empty());
  ASSERT_TRUE(BufferJournal::create(directory, {.upper = upper_text, .job = "8"}).ok());
  write("b", "123");
  write("dir", "1234");
  const std::string left_journal = journal_bytes();
  const auto left = find_left_buffers(directory.parent_path());
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left[0].directory, directory);
  EXPECT_EQ(left[0].owner.upper, upper_text);
  EXPECT_EQ(left[0].owner.job, "8");
  EXPECT_EQ(left[0].files.size(), 2u);
  EXPECT_EQ(left[0].size_bytes, 7u);
  EXPECT_EQ(journal_bytes(), left_journal);
  EXPECT_FALSE(BufferJournal::create(directory, {.upper = upper_text}).ok());
}

TEST_F(DrainFaultsTest, AfterARestartOfTheMachineOnlySyncedFilesAreCopied) {
  std::ofstream(upper / "older") << "still needed";
  const auto write_synced = [&](const std::string& path, const std::string& content) {
    const Writer writer = open_writer(path, content);
    EXPECT_EQ(::fsync(writer.fd), 0);
    EXPECT_EQ(note_synced(buffer(), writer.id, content.size()), 0);
    return writer;
  };
  close_writer(write_synced("synced.tmp", "safe"));
  rename("synced.tmp", "synced");
  write("lost", "perhaps");
  const Writer longer = write_synced("longer", "safe");
  EXPECT_EQ(::write(longer.fd, "not", 3), 3);
  close_writer(longer);
  ::close(write_synced("killed", "safe too").fd);
  remove("older");
  change_boot_id();
  const auto left = find_left_buffers(directory.parent_path());
  ASSERT_EQ(left.size(), 1u);
  for (int i = 0; i < 2; ++i) {
    const auto kept = drain()->finish();
    EXPECT_EQ(kept.size(), 2u) << reasons(kept);
    EXPECT_THAT(reasons(kept), HasSubstr("lost: the machine was restarted"));
    EXPECT_THAT(reasons(kept), HasSubstr("longer: the machine was restarted"));
    const std::map<std::string, std::string> expected = {
        {"killed", "safe too"}, {"older", "still needed"}, {"synced", "safe"}};
    EXPECT_EQ(upper_files(), expected);
    EXPECT_EQ(data_count(), 2u);
  }
}

}  // namespace
}  // namespace millrace::store
