#include "trace/preload/file_access.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <barrier>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

namespace millrace::trace {
namespace {

constexpr size_t kSize = 256 * 1024;
constexpr size_t kThreads = 4;

// ramfs has no fallocate: space is made by writing zeros.
class NoFallocateTest : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "mounting needs root";
    directory_ = std::filesystem::temp_directory_path() / "millrace-ramfs-XXXXXX";
    ASSERT_NE(mkdtemp(directory_.data()), nullptr);
    ASSERT_EQ(mount("ramfs", directory_.c_str(), "ramfs", 0, nullptr), 0);
  }

  void TearDown() override {
    if (directory_.empty()) return;
    EXPECT_EQ(umount(directory_.c_str()), 0);
    std::filesystem::remove(directory_);
  }

  std::string directory_;
};

TEST_F(NoFallocateTest, ConcurrentAllocationOverwritesNothing) {
  std::barrier together(kThreads);
  for (int round = 0; round < 100; ++round) {
    const std::string path = directory_ + "/" + std::to_string(round);
    std::vector<char*> mapped(kThreads, nullptr);
    std::vector<std::thread> threads;
    for (size_t own = 0; own < kThreads; ++own) {
      threads.emplace_back([&, own] {
        together.arrive_and_wait();
        int error = 0;
        void* memory =
            map_file({.path = path.c_str(), .offset = 0, .size = kSize, .create = true}, &error);
        mapped[own] = static_cast<char*>(memory);
        // Each thread writes its own byte of every page.
        for (size_t at = own; mapped[own] != nullptr && at < kSize; at += 4096) mapped[own][at] = 1;
      });
    }
    for (std::thread& thread : threads) thread.join();
    size_t kept = 0;
    for (size_t at = 0; at < kSize; ++at) {
      ASSERT_NE(mapped[0], nullptr);
      kept += static_cast<size_t>(mapped[0][at]);
    }
    EXPECT_EQ(kept, kThreads * (kSize / 4096)) << round;
    EXPECT_GE(std::filesystem::file_size(path), kSize);
    for (char* memory : mapped) munmap(memory, kSize);
  }
}

class OwnFileTest : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "only root can make files of another user";
    directory_ = std::filesystem::temp_directory_path() / "millrace-own-XXXXXX";
    ASSERT_NE(mkdtemp(directory_.data()), nullptr);
    ASSERT_EQ(chmod(directory_.c_str(), 0777), 0);
  }
  void TearDown() override {
    if (!directory_.empty()) std::filesystem::remove_all(directory_);
  }

  // 0, or the errno value of the failure to map the file.
  int map(const std::string& name) const {
    const std::string path = directory_ + "/" + name;
    int error = 0;
    void* memory =
        map_file({.path = path.c_str(), .offset = 0, .size = 4096, .create = true}, &error);
    if (memory != nullptr) munmap(memory, 4096);
    return error;
  }

  std::string directory_;
};

TEST_F(OwnFileTest, AFileOfAnotherUserIsNotMapped) {
  EXPECT_EQ(map("page"), 0);
  ASSERT_EQ(chown((directory_ + "/page").c_str(), 65534, 65534), 0);
  EXPECT_EQ(map("page"), EACCES);
}

// The files of this process then belong to 65534, as on a server that maps all users to one.
TEST_F(OwnFileTest, IfAllFilesGetOneOwnerThatOwnerCountsAsTheUser) {
  setfsuid(65534);
  const int error = map("page");
  const int again = map("page");
  setfsuid(0);
  EXPECT_EQ(error, 0);
  EXPECT_EQ(again, 0);
  size_t left = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
    left += entry.exists() ? 1 : 0;
  }
  EXPECT_EQ(left, 1u);
}

}  // namespace
}  // namespace millrace::trace
