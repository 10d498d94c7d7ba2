#include "store/remote_names.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>

#include "base/crc32c.h"
#include "store/file_times.h"
#include "store/testing/store_case.h"
#include "store/tree.h"
#include "wire/store_name.h"
#include "wire/store_state.h"

namespace millrace::store {
namespace {

namespace fs = std::filesystem;

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;
using wire::PeerNameChange;

constexpr Rank kOther{1};
constexpr FileVersion kFirst{.size_bytes = 5, .mtime_ns = 1'700'000'000'000'000'001, .inode = 0};
constexpr FileVersion kSecond{.size_bytes = 6, .mtime_ns = 1'700'000'000'000'000'002, .inode = 0};

// The names of a node whose dataset has one file, train/0. Another node tells news, and answers
// questions about its files with `answer_`.
class StoreRemoteNames : public StoreCase {
 protected:
  void SetUp() override {
    StoreCase::SetUp();
    for (const char* name : {"tree/train", "making", "fetched"})
      fs::create_directories(top_ / name);
    Member packed{.path = "train/0", .target = ""};
    packed.entry.kind = wire::EntryKind::kFile;
    const auto tree = tree_of({packed});
    ASSERT_TRUE(tree.ok());
    const std::vector<PartitionInfo> partitions = {{.name = "part-00000.pack", .file_bytes = 4096}};
    auto catalogue = Catalogue::of_bytes(
        encode_catalogue({.tree = *tree, .partitions = partitions, .origin = ""}));
    ASSERT_TRUE(catalogue.ok());
    catalogue_ = std::make_unique<Catalogue>(*std::move(catalogue));
    places_.make(2);
    for (uint32_t i = 0; i < 2; ++i) {
      peers_.push_back(std::make_unique<Peers>(places_.options(i)));
      peers_[i]->serve(wire::PeerKind::kReadName,
                       [this](Rank, ByteView) { return PeerAnswer{.bytes = answer_, .view = {}}; });
      ASSERT_TRUE(peers_[i]->start().ok());
    }
    names_ = std::make_unique<RemoteNames>(*catalogue_, *peers_[0], options());
  }

  RemoteNamesOptions options() {
    return {
        .node = top_,
        .save = {},
        .watch = {},
        .tell_again = [this](const std::string& path,
                             const FileVersion& theirs) { told_again_.emplace_back(path, theirs); },
        .watch_made = {},
        .replace = [](const std::string&) {},
        .take = [](const std::string&, const ToldName&) {},
        .expect_removal = [](const std::string&) {},
        .expect_move = [](const std::string&, const std::string&) {},
        .log_link = [](const std::string&, const FileVersion&) {},
        .reserve =
            [this](uint64_t bytes) {
              if (bytes > free_bytes_) return false;
              free_bytes_ -= bytes;
              return true;
            },
        .release = [this](uint64_t bytes) { free_bytes_ += bytes; },
        .log = logger(),
        .retired_patience = std::chrono::nanoseconds(0)};
  }

  Status put(const std::string& path, const FileVersion& version) {
    return names_->note(kOther, {.change = PeerNameChange::kPut,
                                 .path = path,
                                 .to = {},
                                 .version = version,
                                 .mode = S_IFREG | 0644});
  }

  fs::path in_tree(const std::string& path) const { return top_ / "tree" / path; }

  struct stat look(const std::string& path) const {
    struct stat status{};
    EXPECT_EQ(::lstat(in_tree(path).c_str(), &status), 0) << path;
    return status;
  }

  int take_empty(const std::string& path) {
    int os_error = -1;
    names_->take(look(path).st_ino, RemoteNames::Content::kEmpty,
                 [&](int error) { os_error = error; });
    return os_error;
  }

  // What a program does to the file, at another time.
  void write_at_time(const std::string& path, std::string_view bytes, int64_t mtime_ns) const {
    put_file(in_tree(path), bytes);
    ASSERT_EQ(::utimensat(AT_FDCWD, in_tree(path).c_str(), FileTimes(mtime_ns).times, 0), 0);
  }

  static std::string piece_of(std::string_view bytes, uint64_t file_bytes, int64_t mtime_ns) {
    const wire::PeerNamePiece piece{.size_bytes = file_bytes,
                                    .mtime_ns = mtime_ns,
                                    .inode = 1,
                                    .mode = 0644,
                                    .crc32c = crc32c(bytes_of(bytes))};
    return std::string(text_of(std::as_bytes(std::span(&piece, 1)))) + std::string(bytes);
  }

  int fetch(const std::string& path) {
    wire::RemoteName name;
    EXPECT_TRUE(wire::parse_remote_target(fs::read_symlink(in_tree(path)).native(), name)) << path;
    int os_error = -1;
    names_->fetch(name.id, [&](int error) { os_error = error; });
    return os_error;
  }

  std::unique_ptr<Catalogue> catalogue_;
  JobPlaces places_;
  std::string answer_;
  std::vector<std::unique_ptr<Peers>> peers_;
  uint64_t free_bytes_ = 1 << 20;
  std::vector<std::pair<std::string, FileVersion>> told_again_;
  std::unique_ptr<RemoteNames> names_;
};

TEST_F(StoreRemoteNames, AFileThatWasTakenStaysIfItsOldVersionIsToldAgain) {
  ASSERT_TRUE(put("model", kSecond).ok());
  ASSERT_EQ(take_empty("model"), 0);
  // By its time, the old version would win.
  write_at_time("model", "new", kFirst.mtime_ns);
  ASSERT_TRUE(put("model", kSecond).ok());
  EXPECT_TRUE(S_ISREG(look("model").st_mode));
  EXPECT_EQ(content_of(in_tree("model")), "new");
  EXPECT_THAT(told_again_, ElementsAre(Pair("model", kSecond)));
  EXPECT_THAT(lines_, IsEmpty());
}

TEST_F(StoreRemoteNames, AnotherVersionReplacesAFileThatWasTaken) {
  ASSERT_TRUE(put("model", kFirst).ok());
  ASSERT_EQ(take_empty("model"), 0);
  ASSERT_TRUE(put("model", kSecond).ok());
  EXPECT_TRUE(S_ISLNK(look("model").st_mode));
  EXPECT_THAT(told_again_, IsEmpty());
}

TEST_F(StoreRemoteNames, NothingChangesBehindALinkOfAProgram) {
  put_file(top_ / "outside/kept", "mine!");
  ASSERT_EQ(
      ::utimensat(AT_FDCWD, (top_ / "outside/kept").c_str(), FileTimes(kFirst.mtime_ns).times, 0),
      0);
  fs::create_symlink(top_ / "outside", in_tree("out"));
  EXPECT_FALSE(put("out/kept", kSecond).ok());
  EXPECT_FALSE(put("out/new", kSecond).ok());
  EXPECT_FALSE(put("out/deep/new", kSecond).ok());
  EXPECT_FALSE(
      names_
          ->note(
              kOther,
              {.change = PeerNameChange::kRemoved, .path = "out/kept", .to = {}, .version = kFirst})
          .ok());
  EXPECT_FALSE(names_
                   ->note(kOther, {.change = PeerNameChange::kMoved,
                                   .path = "out/kept",
                                   .to = "elsewhere",
                                   .version = kFirst})
                   .ok());
  EXPECT_EQ(content_of(top_ / "outside/kept"), "mine!");
  EXPECT_EQ(std::distance(fs::directory_iterator(top_ / "outside"), fs::directory_iterator()), 1);
}

TEST_F(StoreRemoteNames, AFileOfTheDatasetIsNoDirectory) {
  EXPECT_FALSE(put("train/0/new", kFirst).ok());
  EXPECT_FALSE(fs::exists(in_tree("train/0")));
  EXPECT_TRUE(put("train/1/new", kFirst).ok());
}

TEST_F(StoreRemoteNames, ALengthThatNoFileHasIsRefused) {
  ASSERT_TRUE(put("model", kFirst).ok());
  answer_ = piece_of(std::string(1 << 20, 'x'), UINT64_MAX, kFirst.mtime_ns);
  EXPECT_EQ(fetch("model"), EIO);
  EXPECT_EQ(free_bytes_, uint64_t{1} << 20);
}

TEST_F(StoreRemoteNames, TheCopyOfAnOldVersionMakesRoomForTheNextOne) {
  free_bytes_ = 4096;
  ASSERT_TRUE(put("model", kFirst).ok());
  answer_ = piece_of("first", 5, kFirst.mtime_ns);
  ASSERT_EQ(fetch("model"), 0);
  EXPECT_EQ(free_bytes_, 0u);
  ASSERT_TRUE(put("model", kSecond).ok());
  answer_ = piece_of("second", 6, kSecond.mtime_ns);
  EXPECT_EQ(fetch("model"), 0);
  EXPECT_THAT(lines_, IsEmpty());
}

}  // namespace
}  // namespace millrace::store
