#include "trace/preload/handle_table.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

namespace millrace::trace {
namespace {

class HandleTableTest : public testing::Test {
 protected:
  std::unique_ptr<HandleTable> table_ = std::make_unique<HandleTable>();
};

TEST_F(HandleTableTest, FindsAHandleUntilItIsErased) {
  EXPECT_EQ(table_->find({7, 0}), 0u);
  table_->put({7, 0}, 70);
  EXPECT_EQ(table_->find({7, 0}), 70u);
  table_->erase({7, 0});
  EXPECT_EQ(table_->find({7, 0}), 0u);
}

TEST_F(HandleTableTest, ReplacesTheValueOfAHandle) {
  table_->put({7, 0}, 70);
  table_->put({7, 0}, 71);
  EXPECT_EQ(table_->find({7, 0}), 71u);
  table_->erase({7, 0});
  EXPECT_EQ(table_->find({7, 0}), 0u);
}

TEST_F(HandleTableTest, DistinguishesHandlesOfTwoLibraries) {
  table_->put({7, 1}, 70);
  table_->put({7, 2}, 80);
  EXPECT_EQ(table_->find({7, 1}), 70u);
  EXPECT_EQ(table_->find({7, 2}), 80u);
  table_->erase({7, 1});
  EXPECT_EQ(table_->find({7, 1}), 0u);
  EXPECT_EQ(table_->find({7, 2}), 80u);
}

TEST_F(HandleTableTest, KeepsThousandsOfPointersAndErasesThemAll) {
  constexpr uint64_t kCount = 8000;
  for (uint64_t i = 1; i <= kCount; ++i) table_->put({0x7f0000000000 + i * 48, 0}, i);
  for (uint64_t i = 1; i <= kCount; ++i) EXPECT_EQ(table_->find({0x7f0000000000 + i * 48, 0}), i);
  for (uint64_t i = 1; i <= kCount; ++i) table_->erase({0x7f0000000000 + i * 48, 0});
  for (uint64_t i = 1; i <= kCount; ++i) EXPECT_EQ(table_->find({0x7f0000000000 + i * 48, 0}), 0u);
}

TEST_F(HandleTableTest, AFullTableForgetsOldHandlesForNewOnes) {
  for (uint64_t i = 1; i <= 100'000; ++i) {
    table_->put({i, 0}, i);
    ASSERT_EQ(table_->find({i, 0}), i);
  }
}

TEST_F(HandleTableTest, ThreadsNeverFindTheValueOfAnotherHandle) {
  constexpr uint64_t kThreads = 4;
  std::vector<std::thread> threads;
  std::atomic<uint64_t> wrong{0};
  for (uint64_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (uint64_t i = 0; i < 20'000; ++i) {
        const HandleTable::Key own{1 + (i * kThreads + thread) % 50'000, thread};
        table_->put(own, own.handle * 10 + thread);
        for (uint64_t other = 0; other < kThreads; ++other) {
          const uint64_t found = table_->find({own.handle, other});
          if (found != 0 && found != own.handle * 10 + other) wrong.fetch_add(1);
        }
        if (i % 3 == 0) table_->erase(own);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0u);
}

}  // namespace
}  // namespace millrace::trace
