#include "hook/scratch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

namespace millrace::hook {
namespace {

TEST(Scratch, BuffersInUseAtTheSameTimeAreDistinct) {
  const Scratch<ScratchText> outer;
  const Scratch<ScratchText> inner;
  ASSERT_TRUE(outer && inner);
  std::memset(outer->text, 'o', sizeof(outer->text));
  std::memset(inner->text, 'i', sizeof(inner->text));
  EXPECT_EQ(std::count(outer->text, outer->text + sizeof(outer->text), 'o'), 4096);
}

TEST(Scratch, AReturnedBufferIsReused) {
  const void* first = take_scratch();
  give_scratch(const_cast<void*>(first));
  void* again = take_scratch();
  EXPECT_EQ(again, first);
  give_scratch(again);
}

TEST(Scratch, ThreadsNeverShareABuffer) {
  std::vector<std::thread> threads;
  std::vector<int> mixed(4, 0);
  for (int own = 0; own < 4; ++own) {
    threads.emplace_back([own, &mixed] {
      for (int round = 0; round < 20'000; ++round) {
        const Scratch<ScratchText> scratch;
        std::memset(scratch->text, own, 64);
        mixed[static_cast<size_t>(own)] += std::count(scratch->text, scratch->text + 64, own) != 64;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(mixed, std::vector<int>(4, 0));
}

}  // namespace
}  // namespace millrace::hook
