#include "base/concurrency/bounded_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace millrace {
namespace {

using namespace std::chrono_literals;

TEST(BoundedQueue, KeepsTheOrder) {
  BoundedQueue<int> queue(3);
  queue.push(1);
  queue.push(2);
  queue.push(3);
  EXPECT_EQ(queue.pop(), 1);
  EXPECT_EQ(queue.pop(), 2);
  EXPECT_EQ(queue.pop(), 3);
}

TEST(BoundedQueue, TryPushLeavesTheValueIfThereIsNoRoom) {
  BoundedQueue<std::unique_ptr<int>> queue(1);
  auto first = std::make_unique<int>(1);
  auto second = std::make_unique<int>(2);
  EXPECT_TRUE(queue.try_push(first));
  EXPECT_FALSE(queue.try_push(second));
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(*second, 2);
}

TEST(BoundedQueue, APushWaitsForRoom) {
  BoundedQueue<int> queue(1);
  queue.push(1);
  std::atomic<bool> pushed = false;
  std::thread producer([&] {
    queue.push(2);
    pushed = true;
  });
  std::this_thread::sleep_for(20ms);
  EXPECT_FALSE(pushed);
  EXPECT_EQ(queue.pop(), 1);
  producer.join();
  EXPECT_EQ(queue.pop(), 2);
}

TEST(BoundedQueue, ClosingDrainsThenEnds) {
  BoundedQueue<int> queue(2);
  queue.push(1);
  queue.close();
  EXPECT_FALSE(queue.push(2));
  EXPECT_EQ(queue.pop(), 1);
  EXPECT_EQ(queue.pop(), std::nullopt);
}

TEST(BoundedQueue, ClosingWakesBothSides) {
  BoundedQueue<int> full(1);
  BoundedQueue<int> empty(1);
  full.push(1);
  std::thread producer([&] { EXPECT_FALSE(full.push(2)); });
  std::thread consumer([&] { EXPECT_EQ(empty.pop(), std::nullopt); });
  std::this_thread::sleep_for(10ms);
  full.close();
  empty.close();
  producer.join();
  consumer.join();
}

TEST(BoundedQueue, PopForTimesOut) {
  BoundedQueue<int> queue(1);
  EXPECT_EQ(queue.pop_for(1ms), std::nullopt);
  EXPECT_EQ(queue.try_pop(), std::nullopt);
}

TEST(BoundedQueue, ManyThreadsLoseAndDuplicateNothing) {
  constexpr int kProducers = 4;
  constexpr int kEach = 5000;
  BoundedQueue<int> queue(8);
  std::vector<std::atomic<int>> seen(kProducers * kEach);
  std::vector<std::thread> producers;
  std::vector<std::thread> consumers;
  for (int p = 0; p < kProducers; ++p) {
    producers.emplace_back([&, p] {
      for (int i = 0; i < kEach; ++i) queue.push(p * kEach + i);
    });
    consumers.emplace_back([&] {
      while (const auto value = queue.pop()) ++seen[static_cast<size_t>(*value)];
    });
  }
  for (auto& thread : producers) thread.join();
  queue.close();
  for (auto& thread : consumers) thread.join();
  for (const auto& count : seen) EXPECT_EQ(count, 1);
}

}  // namespace
}  // namespace millrace
