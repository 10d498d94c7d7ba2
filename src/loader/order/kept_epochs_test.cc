#include "loader/order/kept_epochs.h"

#include <gmock/gmock.h>

#include <atomic>
#include <thread>
#include <vector>

namespace millrace::loader::order {
namespace {

using data::Epoch;
using testing::ElementsAre;

TEST(KeptEpochs, MakesATableOnceAndDropsTheLeastRecentlyUsed) {
  const KeptEpochs<uint64_t> kept(2);
  std::vector<uint64_t> made;
  const auto ask = [&](uint64_t epoch) {
    return *kept.find(Epoch{epoch}, [&] {
      made.push_back(epoch);
      return epoch * 10;
    });
  };
  for (const uint64_t epoch : {1, 2, 1, 2, 1, 3, 1, 2}) EXPECT_EQ(ask(epoch), epoch * 10);
  EXPECT_THAT(made, ElementsAre(1, 2, 3, 2));
}

TEST(KeptEpochs, ATableOutlivesItsPlace) {
  const KeptEpochs<std::vector<int>> kept(1);
  const auto first = kept.find(Epoch{0}, [] { return std::vector<int>{1, 2, 3}; });
  kept.find(Epoch{1}, [] { return std::vector<int>{4}; });
  EXPECT_THAT(*first, ElementsAre(1, 2, 3));
}

TEST(KeptEpochs, ThreadsShareOneTable) {
  const KeptEpochs<uint64_t> kept(4);
  std::atomic<int> made = 0;
  std::atomic<int> wrong = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&] {
        for (uint64_t n = 0; n < 1000; ++n) {
          const auto table = kept.find(Epoch{n % 4}, [&] { return ++made, n % 4; });
          wrong += *table == n % 4 ? 0 : 1;
        }
      });
    }
  }
  EXPECT_EQ(made, 4);
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace millrace::loader::order
