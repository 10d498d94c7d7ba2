#include "query/group_ids.h"

#include <gtest/gtest.h>

#include <set>

namespace millrace::query {
namespace {

TEST(GroupIds, NumbersCombinationsInTheOrderOfFirstUse) {
  GroupIds ids;
  EXPECT_EQ(ids.id(0, 7), 0u);
  EXPECT_EQ(ids.id(0, 9), 1u);
  EXPECT_EQ(ids.id(0, 7), 0u);
  EXPECT_EQ(ids.id(1, 7), 2u);
  EXPECT_EQ(ids.count(), 3u);
}

TEST(GroupIds, KeepsItsNumbersWhileItGrows) {
  GroupIds ids;
  std::set<uint32_t> seen;
  for (uint32_t parent = 0; parent < 10; ++parent) {
    for (uint64_t key = 0; key < 2000; ++key) seen.insert(ids.id(parent, key << 20));
  }
  EXPECT_EQ(seen.size(), 20'000u);
  EXPECT_EQ(ids.count(), 20'000u);
  EXPECT_EQ(ids.id(0, 1 << 20), 1u);
  EXPECT_EQ(ids.id(9, uint64_t{1999} << 20), 19'999u);
  EXPECT_EQ(ids.count(), 20'000u);
}

}  // namespace
}  // namespace millrace::query
