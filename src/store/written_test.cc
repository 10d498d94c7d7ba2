#include "store/written.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "base/temporary_directory.h"
#include "store/durable_copy.h"
#include "store/testing/store_case.h"
#include "store/tree.h"
#include "wire/store_state.h"

namespace millrace::store {
namespace {

namespace fs = std::filesystem;

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

std::vector<std::string> names_in(const fs::path& directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::recursive_directory_iterator(directory, error)) {
    names.push_back(entry.path().lexically_relative(directory).string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

TEST(WrittenLog, SaysWhatItsLinesSayTogether) {
  const std::string odd = "d/with space\nand \\ line";
  std::string text = format_log_line({.kind = LogKind::kDirectory, .version = {}, .path = ""});
  text += format_log_line({.kind = LogKind::kDurable, .version = {1, -2, 3}, .path = odd});
  text += format_log_line({.kind = LogKind::kDurable, .version = {4, 5, 6}, .path = "gone"});
  text += format_log_line({.kind = LogKind::kGone, .version = {}, .path = "gone"});
  text += format_log_line({.kind = LogKind::kFlushing, .version = {}, .path = "now"});
  const auto log = parse_written_log(text + "D 1 2 3 torn");
  ASSERT_TRUE(log.ok()) << log.error().message();
  EXPECT_THAT(log->directories, ElementsAre(""));
  ASSERT_EQ(log->durable.size(), 1u);
  EXPECT_EQ(log->durable.at(odd), (FileVersion{1, -2, 3}));
  EXPECT_EQ(log->flushing, "now");
}

TEST(WrittenLog, LinesThatAreNoneAreRefused) {
  for (const char* line : {"X a\n", "D 1 2 a\n", "D 1 2 3 ../a\n", "W /a\n", "- a//b\n", "F \n",
                           "D 99999999999999999999 2 3 a\n", "W a\\x\n", "\n"}) {
    const auto log = parse_written_log(line);
    ASSERT_FALSE(log.ok()) << line;
    EXPECT_THAT(log.error().message(), HasSubstr("line 1 "));
  }
}

class WrittenFiles : public StoreCase {
 protected:
  void SetUp() override {
    StoreCase::SetUp();
    node_ = top_ / "node";
    tree_ = node_ / wire::kStoreTreeDirectory;
    save_ = top_ / "save";
    fs::create_directories(tree_ / "train");
    fs::create_directories(node_ / wire::kStoreMakingDirectory);
    fs::create_directories(save_);
    Member packed{.path = "train/0", .target = ""};
    packed.entry.kind = wire::EntryKind::kFile;
    const auto tree = tree_of({packed});
    ASSERT_TRUE(tree.ok());
    const std::vector<PartitionInfo> partitions = {{.name = "part-00000.pack", .file_bytes = 4096}};
    const std::string bytes =
        encode_catalogue({.tree = *tree, .partitions = partitions, .origin = ""});
    put_file(node_ / wire::kStoreCatalogueFile, bytes);
    auto catalogue = Catalogue::of_bytes(bytes);
    ASSERT_TRUE(catalogue.ok());
    catalogue_ = std::make_unique<Catalogue>(*std::move(catalogue));
  }

  void start(const fs::path& save) {
    const auto log = [this](const std::string& line) {
      const std::lock_guard lock(mutex_);
      lines_.push_back(line);
    };
    auto written = Written::start(*catalogue_, {.node = node_, .save = save, .log = log});
    ASSERT_TRUE(written.ok()) << written.error().message();
    written_ = *std::move(written);
    ASSERT_EQ(written_->watch(wire::kRootEntry), 0);
    ASSERT_EQ(written_->watch(*catalogue_->find("train")), 0);
  }

  // By path: its state.
  std::map<std::string, std::string> states() const {
    std::map<std::string, std::string> found;
    const auto files = list_written(node_);
    EXPECT_TRUE(files.ok());
    for (const WrittenFile& file : *files) found[file.path] = name_of(file.state);
    return found;
  }

  static bool waits_until(const std::function<bool()>& condition) {
    for (int i = 0; i < 3000; ++i) {
      if (condition()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }

  fs::path node_;
  fs::path tree_;
  fs::path save_;
  std::unique_ptr<Catalogue> catalogue_;
  std::mutex mutex_;
  std::vector<std::string> lines_;  // guarded by mutex_
  std::unique_ptr<Written> written_;
};

TEST_F(WrittenFiles, AreSavedWhenTheyAreClosed) {
  start(save_);
  put_file(tree_ / "train/new", "bytes");
  put_file(tree_ / "train/0", "a file of the pack");
  EXPECT_TRUE(waits_until([&] { return states()["train/new"] == "DURABLE"; }));
  EXPECT_EQ(content_of(save_ / "train/new"), "bytes");
  EXPECT_THAT(names_in(save_), ElementsAre("train", "train/new"));
}

TEST_F(WrittenFiles, KeepModeTimeAndLinks) {
  start(save_);
  put_file(tree_ / "d/e/file", "x");
  fs::permissions(tree_ / "d/e/file", fs::perms(0640));
  fs::create_symlink("e/file", tree_ / "d/link");
  EXPECT_EQ(written_->flush(), 0);
  struct stat here{};
  struct stat there{};
  ASSERT_EQ(::stat((tree_ / "d/e/file").c_str(), &here), 0);
  ASSERT_EQ(::stat((save_ / "d/link").c_str(), &there), 0);
  EXPECT_EQ(here.st_mode, there.st_mode);
  EXPECT_EQ(here.st_mtim.tv_nsec, there.st_mtim.tv_nsec);
  EXPECT_EQ(fs::read_symlink(save_ / "d/link"), "e/file");
}

TEST_F(WrittenFiles, AFlushWaitsForAFileThatChangesAgainMeanwhile) {
  start(save_);
  for (int i = 0; i < 100; ++i)
    put_file(tree_ / fmt::format("d/{:02}", i), std::string(10'000, 'x'));
  std::thread other([&] {
    for (const auto mode : {0600, 0640, 0600, 0640}) {
      fs::permissions(tree_ / "d/99", fs::perms(mode));
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  EXPECT_EQ(written_->flush(), 0);
  EXPECT_TRUE(fs::exists(save_ / "d/99"));
  other.join();
}

TEST_F(WrittenFiles, RenamesAndRemovalsAreRepeatedWhereFilesAreSaved) {
  start(save_);
  put_file(tree_ / "d.tmp/a", "a");
  put_file(tree_ / "b", "b");
  ASSERT_EQ(written_->flush(), 0);
  put_file(tree_ / "d.tmp/c", "c");
  fs::rename(tree_ / "d.tmp", tree_ / "d");
  fs::rename(tree_ / "b", tree_ / "train/b");
  ASSERT_EQ(written_->flush(), 0);
  EXPECT_THAT(names_in(save_), ElementsAre("d", "d/a", "d/c", "train", "train/b"));
  EXPECT_THAT(states(),
              UnorderedElementsAre(testing::Pair("d/a", "DURABLE"), testing::Pair("d/c", "DURABLE"),
                                   testing::Pair("train/b", "DURABLE")));
  fs::remove_all(tree_ / "d");
  fs::remove(tree_ / "train/b");
  ASSERT_EQ(written_->flush(), 0);
  EXPECT_THAT(names_in(save_), ElementsAre("train"));
}

TEST_F(WrittenFiles, WhatOthersSavedIsNotRemoved) {
  start(save_);
  put_file(save_ / "d/theirs", "theirs");
  put_file(tree_ / "d/ours", "ours");
  ASSERT_EQ(written_->flush(), 0);
  fs::remove_all(tree_ / "d");
  ASSERT_EQ(written_->flush(), 0);
  EXPECT_THAT(names_in(save_), ElementsAre("d", "d/theirs"));
}

TEST_F(WrittenFiles, AFileThatChangesIsLocalAgain) {
  start(save_);
  put_file(tree_ / "a", "one");
  ASSERT_EQ(written_->flush(), 0);
  const File open = *File::open(tree_ / "a", O_WRONLY);
  ASSERT_TRUE(open.write_at(0, std::as_bytes(std::span("two!", 4))).ok());
  EXPECT_EQ(states()["a"], "LOCAL");
  EXPECT_EQ(content_of(save_ / "a"), "one");
  ASSERT_EQ(written_->flush(), 0);  // also what is open
  EXPECT_EQ(content_of(save_ / "a"), "two!");
}

TEST_F(WrittenFiles, OneThatCannotBeSavedDoesNotStopTheOthers) {
  start(save_);
  fs::create_directories(save_ / "taken" / "not empty");
  put_file(tree_ / "taken", "a file here, a directory there");
  put_file(tree_ / "other", "x");
  EXPECT_EQ(written_->flush(), EIO);
  EXPECT_EQ(states()["other"], "DURABLE");
  EXPECT_NE(states()["taken"], "DURABLE");
  const std::lock_guard lock(mutex_);
  EXPECT_THAT(lines_, testing::Contains(HasSubstr("it stays LOCAL")));
}

TEST_F(WrittenFiles, WithoutAPlaceToSaveTheyStayLocal) {
  start("");
  put_file(tree_ / "a", "one");
  EXPECT_EQ(written_->flush(), EOPNOTSUPP);
  EXPECT_THAT(states(), UnorderedElementsAre(testing::Pair("a", "LOCAL")));
}

TEST_F(WrittenFiles, WhatIsNotDurableIsRescued) {
  start(save_);
  put_file(tree_ / "a", "one");
  ASSERT_EQ(written_->flush(), 0);
  written_.reset();
  put_file(tree_ / "d/b", "two");
  const fs::path rescued = top_ / "rescued";
  const auto files = rescue_written(node_, rescued);
  ASSERT_TRUE(files.ok()) << files.error().message();
  ASSERT_EQ(files->size(), 1u);
  EXPECT_THAT(describe_written(*files), ElementsAre("d/b, 3 B"));
  EXPECT_EQ(content_of(rescued / "d/b"), "two");
  EXPECT_FALSE(fs::exists(rescued / "a"));
}

TEST_F(WrittenFiles, FilesOfOtherNodesAreNotSavedAgain) {
  start(save_);
  put_file(save_ / "d/theirs", "theirs");
  fs::create_directories(tree_ / "d");
  fs::create_symlink("/." + (save_ / "d/theirs").string(), tree_ / "d/theirs");
  fs::create_symlink("/dev/null/millrace-store/2/7/1000/644/-5", tree_ / "d/there");
  EXPECT_EQ(content_of(tree_ / "d/theirs"), "theirs");
  EXPECT_THAT(states(), IsEmpty());
  EXPECT_EQ(written_->flush(), 0);
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(save_ / "d/theirs")));
  EXPECT_FALSE(fs::exists(fs::symlink_status(save_ / "d/there")));
  const auto remote = list_remote(node_, save_);
  ASSERT_TRUE(remote.ok());
  ASSERT_EQ(remote->size(), 1u);
  EXPECT_EQ(remote->front().path, "d/there");
  EXPECT_EQ(remote->front().rank, 2u);
  EXPECT_EQ(remote->front().size_bytes, 1000u);
}

TEST_F(WrittenFiles, OnlyDirectoriesOfTheCatalogueAreWatched) {
  start(save_);
  EXPECT_EQ(written_->watch(*catalogue_->find("train/0")), EINVAL);
  EXPECT_EQ(written_->watch(1'000'000), EINVAL);
}

TEST(DurableCopy, LeavesNothingUnlessItIsCommitted) {
  auto directory = TemporaryDirectory::create();
  ASSERT_TRUE(directory.ok());
  const fs::path source = directory->path() / "source";
  put_file(source, std::string((9 << 20) + 1, 'x'));
  struct stat status{};
  ASSERT_EQ(::stat(source.c_str(), &status), 0);
  const fs::path target = directory->path() / "to" / "copy";
  fs::create_directories(target.parent_path());
  const File file = *File::open(source, O_RDONLY);
  const DurableCopy::Options options{
      .target = target, .token = "1", .status = status, .on_block = {}};
  {
    ASSERT_TRUE(DurableCopy::of_file(file, options).ok());
  }
  EXPECT_THAT(names_in(target.parent_path()), IsEmpty());
  auto copy = DurableCopy::of_file(file, options);
  ASSERT_TRUE(copy.ok());
  ASSERT_TRUE(copy->commit().ok());
  EXPECT_THAT(names_in(target.parent_path()), ElementsAre("copy"));
  EXPECT_EQ(content_of(target), content_of(source));
}

TEST(DurableCopy, ASourceThatIsShorterThanItWasIsAnError) {
  auto directory = TemporaryDirectory::create();
  ASSERT_TRUE(directory.ok());
  const fs::path source = directory->path() / "source";
  put_file(source, "12345");
  struct stat status{};
  ASSERT_EQ(::stat(source.c_str(), &status), 0);
  status.st_size = 6;
  const auto copy = DurableCopy::of_file(
      *File::open(source, O_RDONLY),
      {.target = directory->path() / "copy", .token = "1", .status = status, .on_block = {}});
  EXPECT_FALSE(copy.ok());
  EXPECT_THAT(names_in(directory->path()), ElementsAre("source"));
}

}  // namespace
}  // namespace millrace::store
