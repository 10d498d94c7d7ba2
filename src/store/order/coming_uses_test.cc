#include "store/order/coming_uses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace millrace::store {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

std::vector<uint32_t> all_wanted(ComingUses& uses) {
  std::vector<uint32_t> entries;
  while (const auto wanted = uses.wanted()) {
    entries.push_back(wanted->entry);
    uses.skip_wanted();
  }
  return entries;
}

TEST(ComingUses, TheNextUseIsTheFirstThatIsNotDone) {
  ComingUses uses(10);
  const uint64_t order = uses.add_order();
  uses.append(order, std::vector<uint32_t>{3, 5, 3, 7});
  EXPECT_EQ(uses.next_use(3), 0u);
  EXPECT_EQ(uses.next_use(7), 3u);
  EXPECT_EQ(uses.next_use(1), kNeverUsed);
  uses.advance(order, 2);
  EXPECT_EQ(uses.next_use(3), 2u);
  EXPECT_EQ(uses.next_use(5), kNeverUsed);
  EXPECT_THAT(all_wanted(uses), ElementsAre(3, 7));
}

TEST(ComingUses, OrdersAreMergedFromTheTimeTheyBegin) {
  ComingUses uses(10);
  const uint64_t first = uses.add_order();
  uses.append(first, std::vector<uint32_t>{1, 2, 3, 4});
  uses.advance(first, 2);
  const uint64_t second = uses.add_order();
  uses.append(second, std::vector<uint32_t>{4, 8, 3});
  EXPECT_EQ(uses.next_use(4), 2u);  // of the second; the first reads it at 3
  EXPECT_THAT(all_wanted(uses), ElementsAre(3, 4, 4, 8, 3));
  uses.remove_order(second);
  EXPECT_EQ(uses.next_use(4), 3u);
  EXPECT_EQ(uses.next_use(8), kNeverUsed);
  EXPECT_EQ(uses.use_count(), 2u);
  uses.remove_order(first);
  EXPECT_EQ(uses.use_count(), 0u);
  EXPECT_EQ(uses.next_use(4), kNeverUsed);
}

TEST(ComingUses, TheCursorGoesBackButNotBeforeThePosition) {
  ComingUses uses(10);
  const uint64_t order = uses.add_order();
  uses.append(order, std::vector<uint32_t>{0, 1, 2, 3});
  EXPECT_EQ(all_wanted(uses).size(), 4u);
  uses.want_again(2);
  EXPECT_THAT(all_wanted(uses), ElementsAre(2, 3));
  uses.advance(order, 3);
  uses.want_again(0);
  EXPECT_THAT(all_wanted(uses), ElementsAre(3));
}

TEST(ComingUses, EntriesOutOfRangeOnlyTakeTime) {
  ComingUses uses(4);
  const uint64_t order = uses.add_order();
  uses.append(order, std::vector<uint32_t>{~0u, 9, 2});
  EXPECT_EQ(uses.next_use(2), 2u);
  EXPECT_THAT(all_wanted(uses), ElementsAre(2));
  uses.advance(order, 100);
  EXPECT_EQ(uses.use_count(), 0u);
}

TEST(ComingUses, WhatIsUsedLastIsReplacedFirst) {
  ComingUses uses(10);
  for (const uint32_t entry : {1, 2, 3, 9}) uses.hold(entry);
  EXPECT_THAT(uses.replaceable(kNeverUsed, 10), IsEmpty());
  const uint64_t order = uses.add_order();
  uses.append(order, std::vector<uint32_t>{1, 5, 2, 3, 1});
  EXPECT_THAT(uses.replaceable(1, 10), ElementsAre(9, 3, 2));
  EXPECT_THAT(uses.replaceable(1, 2), ElementsAre(9, 3));
  EXPECT_THAT(uses.replaceable(2, 10), ElementsAre(9, 3));
  uses.let_go(9);
  uses.advance(order, 1);
  EXPECT_THAT(uses.replaceable(1, 10), ElementsAre(1, 3, 2));
  EXPECT_EQ(uses.held_count(), 3u);
  uses.remove_order(order);
  EXPECT_THAT(uses.replaceable(1, 10), UnorderedElementsAre(1, 2, 3));
}

TEST(ComingUses, ALoaderThatPausesDoesNotCountUntilItGoesOn) {
  ComingUses uses(10);
  const uint64_t pausing = uses.add_order();
  uses.append(pausing, std::vector<uint32_t>{6, 7, 8});
  uses.advance(pausing, 1);
  const uint64_t reading = uses.add_order();
  const std::vector<uint32_t> reads(6000, 2);
  uses.append(reading, reads);
  uses.advance(reading, 4096);
  EXPECT_EQ(uses.next_use(7), 1u);
  uses.advance(reading, 5000);
  EXPECT_EQ(uses.next_use(7), kNeverUsed);
  EXPECT_EQ(uses.wanted()->entry, 2u);
  uses.append(pausing, std::vector<uint32_t>{9});
  uses.advance(pausing, 2);
  EXPECT_EQ(uses.next_use(8), 5002u);
  EXPECT_EQ(uses.next_use(9), 5003u);
  uses.remove_order(reading);
  EXPECT_THAT(all_wanted(uses), ElementsAre(8, 9));
  uses.remove_order(pausing);
  EXPECT_EQ(uses.use_count(), 0u);
}

TEST(ComingUses, AFileOfManySamplesThatSeveralLoadersRead) {
  ComingUses uses(4);
  const std::vector<uint32_t> reads(100'000, 1);
  std::vector<uint64_t> orders;
  for (int i = 0; i < 3; ++i) {
    orders.push_back(uses.add_order());
    uses.append(orders.back(), reads);
  }
  uses.hold(1);
  for (const uint64_t order : orders) uses.advance(order, 1000);
  EXPECT_EQ(uses.next_use(1), 1000u);
  for (const uint64_t order : orders) uses.remove_order(order);
  EXPECT_EQ(uses.use_count(), 0u);
  EXPECT_EQ(uses.next_use(1), kNeverUsed);
}

}  // namespace
}  // namespace millrace::store
