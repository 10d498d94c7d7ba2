#include "replay/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/io/temporary_directory.h"

namespace millrace::replay {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr uint32_t kCreate = O_RDWR | O_CREAT;

class FolderTest : public testing::Test {
 protected:
  // A folder that is marked, but has nothing else. Tests run as root, too.
  FolderTest() {
    fs::create_directory(path());
    folder_ = open();
    EXPECT_TRUE(folder_->mark().ok());
  }

  fs::path path(std::string_view below = "") const { return directory_.path() / "onto" / below; }
  fs::path outside(std::string_view below = "") const {
    return directory_.path() / "outside" / below;
  }
  std::unique_ptr<Folder> open(bool only_reads = false) {
    auto folder = Folder::open({.path = path(), .only_reads = only_reads});
    EXPECT_TRUE(folder.ok()) << folder.error().message();
    return *std::move(folder);
  }
  static void write(const fs::path& file, std::string_view text) {
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  static std::string read(const fs::path& file) {
    std::ifstream stream(file);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  // 0, or the error of open_file().
  int error_of_open(std::string_view name, uint32_t flags) {
    const Outcome outcome = folder_->open_file(name, flags);
    if (outcome.result >= 0) close(static_cast<int>(outcome.result));
    return outcome.error;
  }
  void create(std::string_view name, std::string_view text = "") {
    const Outcome outcome = folder_->open_file(name, kCreate);
    ASSERT_GE(outcome.result, 0) << name;
    const File file(static_cast<int>(outcome.result));
    ASSERT_TRUE(file.write_at(0, bytes_of(text)).ok());
  }

  TemporaryDirectory directory_ = *TemporaryDirectory::create();
  std::unique_ptr<Folder> folder_;
};

TEST_F(FolderTest, NamesAreCreatedInNewEmptyAndMarkedFoldersOnly) {
  EXPECT_TRUE(open()->may_create());  // marked
  fs::remove(path(kFolderMark));
  EXPECT_TRUE(open()->may_create());  // empty
  write(path("mine"), "1");
  const auto foreign = open();
  EXPECT_FALSE(foreign->may_create());
  EXPECT_EQ(foreign->open_file("new", kCreate).error, EPERM);
  EXPECT_EQ(foreign->make_directory("new").error, EPERM);
  EXPECT_EQ(foreign->open_file("", O_RDWR | O_TMPFILE).error, EPERM);
  EXPECT_FALSE(fs::exists(path("new")));
  fs::remove_all(path());
  EXPECT_TRUE(open()->may_create());  // new
  EXPECT_FALSE(open(/*only_reads=*/true)->may_create());
}

TEST_F(FolderTest, WhatWasThereIsOpenForReadingOnly) {
  write(path("mine"), "text");
  for (const uint32_t flags :
       {uint32_t{O_WRONLY}, uint32_t{O_RDWR}, kCreate, uint32_t{O_ACCMODE}}) {
    const Outcome outcome = folder_->open_file("mine", flags);
    ASSERT_GE(outcome.result, 0);
    const File file(static_cast<int>(outcome.result));
    EXPECT_EQ(::write(file.fd(), "x", 1), -1);
    EXPECT_EQ(ftruncate(file.fd(), 0), -1);
    EXPECT_EQ(fallocate(file.fd(), 0, 0, 100), -1);
  }
  EXPECT_EQ(error_of_open("mine", O_RDONLY | O_TRUNC), EPERM);
  EXPECT_EQ(error_of_open("mine", O_WRONLY | O_TRUNC), EPERM);
  EXPECT_EQ(error_of_open("mine", kCreate | O_TRUNC), EPERM);
  EXPECT_EQ(error_of_open("mine", kCreate | O_EXCL), EEXIST);
  EXPECT_EQ(folder_->truncate("mine", 0).error, EPERM);
  EXPECT_EQ(read(path("mine")), "text");
}

TEST_F(FolderTest, NamesThatWereThereStay) {
  write(path("mine"), "text");
  fs::create_directory(path("directory"));
  create("ours");
  for (const std::string_view name : {"mine", "directory", kFolderMark}) {
    EXPECT_EQ(folder_->remove(name, false).error, EPERM);
    EXPECT_EQ(folder_->remove(name, true).error, EPERM);
    EXPECT_EQ(folder_->rename(name, "new").error, EPERM);
    EXPECT_EQ(folder_->rename("ours", name).error, EPERM);
    EXPECT_EQ(folder_->link(name, "new").error, EPERM);
    std::vector<std::string> left;
    folder_->remove_created(name, left);
    EXPECT_THAT(left, ElementsAre(name));
  }
  EXPECT_EQ(folder_->link("ours", "mine").error, EEXIST);
  EXPECT_EQ(folder_->remove("", true).error, EPERM);
  EXPECT_EQ(folder_->rename("", "new").error, EPERM);
  EXPECT_EQ(read(path("mine")), "text");
  EXPECT_TRUE(fs::is_directory(path("directory")));
  EXPECT_FALSE(fs::exists(path("new")));
}

TEST_F(FolderTest, WhatItCreatedItChanges) {
  ASSERT_EQ(folder_->make_directory("a").result, 0);
  create("a/x", "text");
  EXPECT_EQ(error_of_open("a/x", O_WRONLY | O_TRUNC), 0);
  EXPECT_EQ(fs::file_size(path("a/x")), 0u);
  EXPECT_EQ(folder_->truncate("a/x", 10).result, 0);
  EXPECT_EQ(folder_->link("a/x", "a/y").result, 0);
  EXPECT_EQ(folder_->remove("a/x", false).result, 0);
  EXPECT_EQ(folder_->rename("a", "b").result, 0);
  EXPECT_EQ(error_of_open("a/y", O_RDONLY), ENOENT);
  EXPECT_EQ(error_of_open("b/y", O_RDWR | O_TRUNC), 0);
  std::vector<std::string> left;
  folder_->remove_created("b", left);
  EXPECT_THAT(left, IsEmpty());
  EXPECT_FALSE(fs::exists(path("b")));
}

TEST_F(FolderTest, ForeignFilesInADirectoryOfTheReplayStay) {
  ASSERT_EQ(folder_->make_directory("a").result, 0);
  ASSERT_EQ(folder_->make_directory("a/b").result, 0);
  create("a/b/x");
  create("a/y");
  write(path("a/b/mine"), "text");
  std::vector<std::string> left;
  folder_->remove_created("a", left);
  EXPECT_THAT(left, ElementsAre("a/b/mine"));
  EXPECT_EQ(read(path("a/b/mine")), "text");
  EXPECT_FALSE(fs::exists(path("a/b/x")));
  EXPECT_FALSE(fs::exists(path("a/y")));
}

TEST_F(FolderTest, AFileInPlaceOfOneThatItCreatedIsForeign) {
  // File systems give the inode of a removed file to the next one.
  for (int i = 0; i < 20; ++i) {
    create("x", "ours");
    ASSERT_EQ(folder_->remove("x", false).result, 0);
    write(path("x"), "mine");
    EXPECT_EQ(folder_->remove("x", false).error, EPERM);
    EXPECT_EQ(error_of_open("x", O_WRONLY | O_TRUNC), EPERM);
    EXPECT_EQ(read(path("x")), "mine");
    fs::remove(path("x"));
  }
}

TEST_F(FolderTest, NothingLeadsOut) {
  write(outside("precious"), "text");
  fs::create_symlink(outside("precious"), path("link"));
  fs::create_symlink(outside(), path("directory"));
  for (const uint32_t flags : {uint32_t{O_RDONLY}, kCreate, uint32_t{O_WRONLY | O_TRUNC}}) {
    EXPECT_NE(error_of_open("link", flags), 0);
    EXPECT_EQ(error_of_open("directory/precious", flags), ENOTDIR);
    EXPECT_EQ(error_of_open("../outside/precious", flags), EINVAL);
    EXPECT_EQ(error_of_open("a/../../outside/precious", flags), ENOENT);
    EXPECT_EQ(error_of_open("..", flags), EINVAL);
  }
  create("ours");
  EXPECT_NE(folder_->rename("ours", "directory/ours").result, 0);
  EXPECT_EQ(folder_->remove("directory/precious", false).error, ENOTDIR);
  EXPECT_EQ(folder_->make_directory("directory/new").error, ENOTDIR);
  EXPECT_EQ(read(outside("precious")), "text");
  EXPECT_EQ(std::distance(fs::directory_iterator(outside()), {}), 1);
}

TEST_F(FolderTest, ADirectoryThatBecomesALinkLeadsNowhere) {
  write(outside("x"), "text");
  ASSERT_EQ(folder_->make_directory("a").result, 0);
  create("a/x", "ours");
  fs::rename(path("a"), path("moved"));
  fs::create_symlink(outside(), path("a"));
  EXPECT_EQ(error_of_open("a/x", O_WRONLY | O_TRUNC), 0);  // in the directory that it knows
  create("a/y");
  EXPECT_EQ(fs::file_size(path("moved/x")), 0u);
  EXPECT_TRUE(fs::exists(path("moved/y")));
  EXPECT_EQ(read(outside("x")), "text");
  EXPECT_FALSE(fs::exists(outside("y")));
  EXPECT_EQ(open()->open_file("a/x", O_RDONLY).error, ENOTDIR);
}

TEST_F(FolderTest, ANameThatKeepsChangingIsNeverFollowed) {
  write(outside("x"), "text");
  write(path("mine/x"), "mine");
  fs::create_symlink(outside(), path("other"));
  std::atomic<bool> stop = false;
  std::thread swaps([&] {
    while (!stop) {
      renameat2(AT_FDCWD, path("mine").c_str(), AT_FDCWD, path("other").c_str(), RENAME_EXCHANGE);
    }
  });
  for (int i = 0; i < 500; ++i) {
    const auto folder = open();
    ASSERT_TRUE(folder->mark().ok());
    EXPECT_LT(folder->open_file("mine/x", O_WRONLY | O_TRUNC).result, 0);
    EXPECT_LT(folder->remove("mine/x", false).result, 0);
    folder->open_file("mine/new" + std::to_string(i), kCreate | O_EXCL);
  }
  stop = true;
  swaps.join();
  EXPECT_EQ(read(outside("x")), "text");
  EXPECT_EQ(std::distance(fs::directory_iterator(outside()), {}), 1);
}

TEST_F(FolderTest, PipesAndDevicesAreNotOpened) {
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  for (const uint32_t flags : {uint32_t{O_RDONLY}, uint32_t{O_RDWR}, kCreate}) {
    EXPECT_EQ(error_of_open("pipe", flags), EPERM);
  }
  if (mknod(path("device").c_str(), S_IFCHR | 0600, makedev(1, 3)) == 0) {
    EXPECT_EQ(error_of_open("device", O_RDWR), EPERM);
  }
}

TEST(KernelFiles, AreNotOpened) {
  EXPECT_THAT(Folder::open({.path = "/proc/self", .only_reads = true}).error().message(),
              HasSubstr("are not data"));
  const auto root = Folder::open({.path = "/", .only_reads = true});
  ASSERT_TRUE(root.ok()) << root.error().message();
  EXPECT_EQ((*root)->open_file("proc/version", O_RDONLY).error, EPERM);
  EXPECT_EQ((*root)->find("proc/version").error, EPERM);
}

TEST_F(FolderTest, ThreadsThatCreateTheSameFileShareIt) {
  std::vector<std::thread> threads;
  std::atomic<int> failures = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        const Outcome outcome = folder_->open_file("x" + std::to_string(i), kCreate);
        const File file(static_cast<int>(outcome.result));
        if (!file.is_open() || ::write(file.fd(), "x", 1) != 1) ++failures;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
}

TEST_F(FolderTest, ItRemovesItselfIfItIsEmpty) {
  folder_->remove_itself();
  EXPECT_TRUE(fs::is_empty(path()));  // it was there before
  fs::remove(path());
  const auto made = open();
  ASSERT_TRUE(made->mark().ok());
  write(path("mine"), "text");
  made->remove_itself();
  EXPECT_EQ(read(path("mine")), "text");
  fs::remove(path("mine"));
  made->remove_itself();
  EXPECT_FALSE(fs::exists(path()));
}

}  // namespace
}  // namespace millrace::replay
