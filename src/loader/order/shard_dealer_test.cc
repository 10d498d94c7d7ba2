#include "loader/order/shard_dealer.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <vector>

#include "loader/order/order_key.h"

namespace millrace::loader::order {
namespace {

PermutationKey bits_of(uint64_t which) {
  return order_key({.seed = 7, .epoch = {}, .purpose = Purpose::kHolders, .which = which});
}

TEST(ShardDealer, DealsPermutationsWithTheirInverses) {
  for (const uint32_t shard_count : {1u, 2u, 3u, 4u, 8u, 17u, 100u, 1024u}) {
    const ShardDealer dealer(shard_count, 5);
    for (uint64_t which = 0; which < 50; ++which) {
      std::set<uint64_t> homes;
      for (uint64_t holder = 0; holder < shard_count; ++holder) {
        const uint64_t home = dealer.home_of(bits_of(which), holder);
        ASSERT_LT(home, shard_count);
        ASSERT_EQ(dealer.holder_of(bits_of(which), home), holder);
        homes.insert(home);
      }
      ASSERT_EQ(homes.size(), shard_count);
    }
  }
  const ShardDealer most(ShardDealer::kShardCountMax, 5);
  for (uint64_t which = 0; which < 50; ++which) {
    const uint64_t home = most.home_of(bits_of(which), ShardDealer::kShardCountMax - 1 - which);
    EXPECT_EQ(most.holder_of(bits_of(which), home), ShardDealer::kShardCountMax - 1 - which);
  }
}

// The mean squared deviation from the mean, relative to the mean.
double unevenness(const std::vector<double>& counts) {
  const double mean =
      std::accumulate(counts.begin(), counts.end(), 0.0) / static_cast<double>(counts.size());
  double squares = 0;
  for (const double count : counts) squares += (count / mean - 1) * (count / mean - 1);
  return squares / static_cast<double>(counts.size());
}

TEST(ShardDealer, SendsShardsEverywhereEquallyOftenAndPairsNearlySo) {
  constexpr uint64_t kDeals = 30'000;
  for (const uint32_t shard_count : {2u, 3u, 8u, 10u, 16u}) {  // 8 is far from its prime, 11
    const ShardDealer dealer(shard_count, 5);
    for (const uint64_t other : {uint64_t{1}, uint64_t{shard_count} - 1}) {
      std::vector<double> one(shard_count);
      std::vector<double> two(shard_count * shard_count);
      for (uint64_t which = 0; which < kDeals; ++which) {
        const uint64_t home = dealer.home_of(bits_of(which), 0);
        ++one[home];
        ++two[home * shard_count + dealer.home_of(bits_of(which), other)];
      }
      std::erase(two, 0);  // the two are never in the same place
      EXPECT_EQ(two.size(), shard_count * (shard_count - 1));
      EXPECT_LT(unevenness(one), 4.0 * shard_count / kDeals);  // no more than by chance
      EXPECT_LT(unevenness(two), 0.03) << shard_count << " " << other;
    }
  }
}

}  // namespace
}  // namespace millrace::loader::order
