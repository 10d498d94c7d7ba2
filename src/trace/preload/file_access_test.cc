#include "trace/preload/file_access.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/mount.h>
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

TEST_F(NoFallocateTest, SpaceThatSeveralMakeIsNotWrittenOver) {
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
        // One byte of every page, of which the others have their own.
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

}  // namespace
}  // namespace millrace::trace
