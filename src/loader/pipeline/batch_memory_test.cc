#include "loader/pipeline/batch_memory.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace millrace::loader::pipeline {
namespace {

TEST(BatchMemory, AReleasedBufferIsReused) {
  BatchMemory memory({.buffer_bytes = 10'000, .kept_count = 2});
  std::byte* const first = memory.take()->get();
  EXPECT_EQ(memory.take()->get(), first);
  EXPECT_EQ(memory.allocated_count(), 1u);
}

TEST(BatchMemory, BuffersArePageAlignedAndFullyMapped) {
  for (const size_t size_bytes : {size_t{1}, size_t{4096}, size_t{100'000}, size_t{5} << 20}) {
    BatchMemory memory({.buffer_bytes = size_bytes});
    const auto buffer = *memory.take();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.get()) % 4096, 0u);
    std::memset(buffer.get(), 7, size_bytes);
    EXPECT_EQ(buffer.get()[size_bytes - 1], std::byte{7});
  }
}

TEST(BatchMemory, NeverWaitsForABufferButAllocatesAnother) {
  BatchMemory memory({.buffer_bytes = 4096, .kept_count = 1});
  std::vector<std::shared_ptr<std::byte>> held;
  for (int i = 0; i < 100; ++i) held.push_back(*memory.take());
  EXPECT_EQ(memory.allocated_count(), 100u);
  held.clear();
  EXPECT_EQ(memory.free_count(), 1u);
}

TEST(BatchMemory, ABufferMayOutliveThePool) {
  std::shared_ptr<std::byte> held;
  {
    BatchMemory memory({.buffer_bytes = 4096});
    held = *memory.take();
  }
  std::memset(held.get(), 1, 4096);
  held.reset();
}

TEST(BatchMemory, AllocatesAndFreesWithTheHooks) {
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

TEST(BatchMemory, ReportsThatMemoryIsExhausted) {
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

TEST(BatchMemory, ManyThreadsMayTakeAndRelease) {
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

// Accelerator work that ends when the test says so.
struct Copies {
  std::vector<std::shared_ptr<std::atomic<bool>>> begun;

  MemoryHooks hooks() {
    class Begun : public Fence {
     public:
      explicit Begun(std::shared_ptr<std::atomic<bool>> is_over) : is_over_(std::move(is_over)) {}
      bool is_over() const override { return *is_over_; }
      void wait() const override { is_over_->wait(false); }

     private:
      std::shared_ptr<std::atomic<bool>> is_over_;
    };
    return {.allocate = [](size_t size_bytes) { return std::aligned_alloc(4096, size_bytes); },
            .free = [](void* buffer, size_t) { std::free(buffer); },
            .fence =
                [this] {
                  begun.push_back(std::make_shared<std::atomic<bool>>(false));
                  return std::make_unique<Begun>(begun.back());
                }};
  }

  void end(size_t which) { end(*begun[which]); }

  // By another thread, so that another copy may begin meanwhile.
  static void end(std::atomic<bool>& copy) {
    copy = true;
    copy.notify_all();
  }
};

TEST(BatchMemory, ABufferIsNotReusedDuringACopyFromIt) {
  Copies copies;
  BatchMemory memory({.buffer_bytes = 4096, .kept_count = 2, .hooks = copies.hooks()});
  std::byte* const copied = memory.take()->get();
  std::shared_ptr<std::byte> other = *memory.take();
  EXPECT_NE(other.get(), copied);
  copies.end(0);
  EXPECT_EQ(memory.take()->get(), copied);
  EXPECT_EQ(memory.allocated_count(), 2u);
  other.reset();
  for (size_t i = 0; i < copies.begun.size(); ++i) copies.end(i);
}

TEST(BatchMemory, IfManyBuffersAreFencedWaitsForTheOldest) {
  Copies copies;
  BatchMemory memory({.buffer_bytes = 4096, .kept_count = 2, .hooks = copies.hooks()});
  std::shared_ptr<std::byte> first = *memory.take();
  std::shared_ptr<std::byte> second = *memory.take();
  std::byte* const oldest = first.get();
  first.reset();
  second.reset();
  std::thread accelerator([copy = copies.begun[0]] { Copies::end(*copy); });
  EXPECT_EQ(memory.take()->get(), oldest);
  accelerator.join();
  EXPECT_EQ(memory.allocated_count(), 2u);
  for (size_t i = 0; i < copies.begun.size(); ++i) copies.end(i);
}

TEST(BatchMemory, ReleasingABufferNeverWaitsForTheAccelerator) {
  Copies copies;
  BatchMemory memory({.buffer_bytes = 4096, .kept_count = 1, .hooks = copies.hooks()});
  std::vector<std::shared_ptr<std::byte>> held;
  for (int i = 0; i < 5; ++i) held.push_back(*memory.take());
  held.clear();
  EXPECT_EQ(memory.free_count(), 5u);
  for (size_t i = 0; i < 5; ++i) copies.end(i);
  memory.take()->reset();
  for (size_t i = 0; i < copies.begun.size(); ++i) copies.end(i);
  memory.set_kept_count(1);
  EXPECT_EQ(memory.free_count(), 1u);
}

TEST(BatchMemory, IsFreedOnlyAfterTheCopy) {
  Copies copies;
  MemoryHooks hooks = copies.hooks();
  bool was_over = false;
  hooks.free = [&](void* buffer, size_t) {
    was_over = *copies.begun[0];
    std::free(buffer);
  };
  std::thread accelerator;
  {
    BatchMemory memory({.buffer_bytes = 4096, .kept_count = 1, .hooks = hooks});
    memory.take()->reset();
    accelerator = std::thread([copy = copies.begun[0]] { Copies::end(*copy); });
  }
  accelerator.join();
  EXPECT_TRUE(was_over);
}

}  // namespace
}  // namespace millrace::loader::pipeline
