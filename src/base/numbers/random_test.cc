#include "base/numbers/random.h"

#include <gtest/gtest.h>

#include <set>

namespace millrace {
namespace {

// The first numbers of splitmix64 with seed 1234567, as published by its author.
TEST(Random, GivesThePublishedNumbers) {
  Random random(1234567);
  EXPECT_EQ(random.next(), 6457827717110365317u);
  EXPECT_EQ(random.next(), 3203168211198807973u);
  EXPECT_EQ(random.next(), 9817491932198370423u);
}

TEST(Random, BelowReachesEveryNumberBelowItsBound) {
  Random random(7);
  std::set<uint64_t> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(random.below(10));
  EXPECT_EQ(seen.size(), 10u);
  EXPECT_EQ(*seen.rbegin(), 9u);
  EXPECT_EQ(random.below(1), 0u);
}

}  // namespace
}  // namespace millrace
