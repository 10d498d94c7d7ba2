#include "loader/pipeline/batch_memory.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

namespace millrace::loader {
namespace {

TEST(BatchMemory, ABufferThatIsLetGoOfIsHandedOutAgain) {
  BatchMemory memory({.buffer_bytes = 10'000, .kept_count = 2});
  std::byte* const first = memory.take()->get();
  EXPECT_EQ(memory.take()->get(), first);
  EXPECT_EQ(memory.allocated_count(), 1u);
}

TEST(BatchMemory, BuffersBeginAtAPageAndAreWhollyThere) {
  for (const size_t size_bytes : {size_t{1}, size_t{4096}, size_t{100'000}, size_t{5} << 20}) {
    BatchMemory memory({.buffer_bytes = size_bytes});
    const auto buffer = *memory.take();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.get()) % 4096, 0u);
    std::memset(buffer.get(), 7, size_bytes);
    EXPECT_EQ(buffer.get()[size_bytes - 1], std::byte{7});
  }
}

TEST(BatchMemory, NeverWaitsForABufferButMakesAnother) {
  BatchMemory memory({.buffer_bytes = 4096, .kept_count = 1});
  std::vector<std::shared_ptr<std::byte>> held;
  for (int i = 0; i < 100; ++i) held.push_back(*memory.take());
  EXPECT_EQ(memory.allocated_count(), 100u);
  held.clear();
  EXPECT_EQ(memory.free_count(), 1u);
}

TEST(BatchMemory, ABufferMayBeUsedAndLetGoOfAfterThePool) {
  std::shared_ptr<std::byte> held;
  {
    BatchMemory memory({.buffer_bytes = 4096});
    held = *memory.take();
  }
  std::memset(held.get(), 1, 4096);
  held.reset();
}

TEST(BatchMemory, TakesAndFreesByTheHooks) {
  int allocated = 0;
  int freed = 0;
  const MemoryHooks hooks{.allocate =
                              [&](size_t size_bytes) {
                                ++allocated;
                                return std::aligned_alloc(4096, size_bytes);
                              },
                          .free =
                              [&](void* buffer, size_t) {
                                ++freed;
                                std::free(buffer);
                              }};
  {
    BatchMemory memory({.buffer_bytes = 4096, .kept_count = 1, .hooks = hooks});
    const auto first = *memory.take();
    const auto second = *memory.take();
  }
  EXPECT_EQ(allocated, 2);
  EXPECT_EQ(freed, 2);
}

TEST(BatchMemory, SaysThatThereIsNoMemoryLeft) {
  BatchMemory memory(
      {.buffer_bytes = 4096,
       .hooks = {.allocate = [](size_t) -> void* { return nullptr; }, .free = nullptr}});
  const auto buffer = memory.take();
  ASSERT_FALSE(buffer.ok());
  EXPECT_EQ(buffer.error().code(), Errc::kExhausted);
  EXPECT_NE(buffer.error().message().find("4 KiB"), std::string::npos) << buffer.error().message();
}

TEST(BatchMemory, AChildOfForkLeavesThePoolAlone) {
  int freed = 0;
  const MemoryHooks hooks{
      .allocate = [](size_t size_bytes) { return std::aligned_alloc(4096, size_bytes); },
      .free =
          [&](void* buffer, size_t) {
            ++freed;
            std::free(buffer);
          }};
  auto memory = std::make_unique<BatchMemory>(
      BatchMemory::Options{.buffer_bytes = 4096, .kept_count = 1, .hooks = hooks});
  auto buffer = *memory->take();
  const pid_t child = fork();
  if (child == 0) {
    buffer.reset();
    memory.reset();
    _exit(freed);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(BatchMemory, ManyThreadsMayTakeAndLetGo) {
  BatchMemory memory({.buffer_bytes = 4096, .kept_count = 3});
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 500; ++round) {
        const auto buffer = *memory.take();
        std::memset(buffer.get(), i, 4096);
        ASSERT_EQ(buffer.get()[4095], std::byte(i));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(memory.allocated_count(), 2000u);
  EXPECT_LE(memory.free_count(), 3u);
}

}  // namespace
}  // namespace millrace::loader
