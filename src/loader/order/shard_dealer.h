// ShardDealer: permutations of the shards, each given by 128 random bits, and their inverses.
//
// x -> factor * x + summand, modulo the smallest prime that is not below the number of shards.
// Results that are too large go through again, and the shards are rotated before and after. Each
// shard goes to each place equally often, and any two shards go to any two places nearly so (within
// a few percent, shard_dealer_test.cc). Dealing needs no more than that. This takes four products.
// A keyed permutation takes 24 and their keys, which only pays off for many numbers; here each
// permutation is applied to one or two. For PartialMoves.
#pragma once

#include <cstdint>
#include <vector>

#include "base/numbers/divisor.h"
#include "base/numbers/permutation.h"

namespace millrace::loader::order {

class ShardDealer {
 public:
  static constexpr uint32_t kShardCountMax = uint32_t{1} << 30;

  // REQUIRES: 0 < shard_count <= kShardCountMax
  ShardDealer(uint32_t shard_count, uint64_t seed);

  // The shard that a holder's sample came from, and the holder of a shard's sample.
  uint64_t home_of(PermutationKey bits, uint64_t holder) const {
    const uint64_t factor = factor_of(bits).forth;
    const uint64_t summand = summand_of(bits);
    uint64_t sent = turned(holder, first_turn_of(bits));
    do {
      sent = prime_.divide(factor * sent + summand).rest;
    } while (sent >= shard_count_);
    return turned(sent, last_turn_of(bits));
  }
  uint64_t holder_of(PermutationKey bits, uint64_t home) const {
    const uint64_t factor = factor_of(bits).back;
    const uint64_t summand = prime_.value() - summand_of(bits);
    uint64_t sent = turned(home, shard_count_ - last_turn_of(bits));
    do {
      sent = prime_.divide(factor * prime_.divide(sent + summand).rest).rest;
    } while (sent >= shard_count_);
    return turned(sent, shard_count_ - first_turn_of(bits));
  }

 private:
  static constexpr uint64_t kFactorCountMax = 4096;

  struct Factor {
    uint32_t forth = 1;
    uint32_t back = 1;  // its inverse
  };

  // Maps 32 random bits to a number below the bound.
  static uint64_t below(uint64_t bound, uint64_t bits) { return (bits & 0xffffffff) * bound >> 32; }

  const Factor& factor_of(PermutationKey bits) const {
    return factors_[below(factors_.size(), bits.low)];
  }
  uint64_t summand_of(PermutationKey bits) const { return below(prime_.value(), bits.low >> 32); }
  uint64_t first_turn_of(PermutationKey bits) const { return below(shard_count_, bits.high); }
  uint64_t last_turn_of(PermutationKey bits) const { return below(shard_count_, bits.high >> 32); }
  uint64_t turned(uint64_t shard, uint64_t by) const {
    const uint64_t sum = shard + by;
    return sum >= shard_count_ ? sum - shard_count_ : sum;
  }

  uint64_t shard_count_;
  Divisor prime_;
  std::vector<Factor> factors_;  // all of them, or some that the seed selects
};

}  // namespace millrace::loader::order
