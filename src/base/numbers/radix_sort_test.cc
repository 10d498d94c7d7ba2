#include "base/numbers/radix_sort.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/numbers/random.h"

namespace millrace {
namespace {

struct Item {
  uint64_t key = 0;
  size_t place = 0;
  bool operator==(const Item&) const = default;
};

void expect_sorted_as_by_comparing(std::vector<Item> items) {
  for (size_t i = 0; i < items.size(); ++i) items[i].place = i;
  auto expected = items;
  std::stable_sort(expected.begin(), expected.end(),
                   [](const Item& a, const Item& b) { return a.key < b.key; });
  radix_sort(std::span(items), [](const Item& item) { return item.key; });
  EXPECT_EQ(items, expected);
}

TEST(RadixSort, SortsKeysOfAnyWidthStably) {
  Random random(1);
  for (const size_t size : {0u, 1u, 255u, 256u, 5000u}) {
    for (const unsigned width : {1u, 11u, 12u, 30u, 63u, 64u}) {
      std::vector<Item> items(size);
      for (Item& item : items) item.key = random.next() >> (64 - width);
      expect_sorted_as_by_comparing(items);
    }
  }
}

TEST(RadixSort, LeavesEqualKeysAlone) {
  expect_sorted_as_by_comparing(std::vector<Item>(1000, Item{.key = UINT64_MAX}));
}

// Bits that all keys share are skipped; bits above and below them still count.
TEST(RadixSort, SortsKeysWithCommonBits) {
  Random random(2);
  std::vector<Item> items(1000);
  for (Item& item : items) item.key = (uint64_t{0xabc} << 52) | (random.below(4) << 40) | 77;
  expect_sorted_as_by_comparing(items);
}

}  // namespace
}  // namespace millrace
