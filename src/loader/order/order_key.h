// OrderKey: the names and keys of the permutations that orders consist of.
//
// The name (seed, epoch, purpose, which) is one block of Philox: distinct names give unrelated
// keys. Sums such as seed + epoch would not do: epoch 1 of seed 0 would equal epoch 0 of seed 1,
// and two jobs that should differ would share their orders.
#pragma once

#include <cassert>
#include <cstdint>
#include <span>

#include "base/numbers/counter_random.h"
#include "base/numbers/permutation.h"
#include "data/sample.h"

namespace millrace::loader::order {

// The numbers are part of every order; add new ones at the end. None is 0, so that no name collides
// with CounterRandom(seed, small stream), which augmentations use.
enum class Purpose : uint8_t {
  kGlobal = 1,
  kLocal = 2,  // `which` is the shard
  kFile = 3,
  kHolders = 6,        // `which` is the slot, and the epoch is the deal (partial_moves.h)
  kSwapped = 7,        // `which` is the pair of slots, and the epoch is the deal
  kFirstDealt = 8,     // which pair of slots is dealt first
  kDealingFactor = 9,  // `which` is the number of the factor (shard_dealer.h)
  kWeighted = 10,      // `which` is the position, or without replacement the sample
  kMixtureSlots = 11,
  kMixturePart = 12,  // `which` is the part, and the epoch is the round
  kDecoding = 13,     // `which` is the position
};

struct OrderName {
  uint64_t seed = 0;
  data::Epoch epoch{};
  Purpose purpose{};
  uint64_t which = 0;  // below 2^56
};

// The second half of the block's counter; the epoch is the first.
inline uint64_t named_purpose(Purpose purpose, uint64_t which) {
  return uint64_t{static_cast<uint8_t>(purpose)} << 56 | which;
}

inline PermutationKey key_of_block(uint64_t seed, uint64_t epoch, uint64_t purpose) {
  const auto block =
      philox4x32({static_cast<uint32_t>(epoch), static_cast<uint32_t>(epoch >> 32),
                  static_cast<uint32_t>(purpose), static_cast<uint32_t>(purpose >> 32)},
                 {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  return {.low = uint64_t{block[1]} << 32 | block[0], .high = uint64_t{block[3]} << 32 | block[2]};
}

inline PermutationKey order_key(const OrderName& name) {
  return key_of_block(name.seed, data::number_of(name.epoch),
                      named_purpose(name.purpose, name.which));
}

// Many keys at a time: replaces the epochs and named purposes by the lower and upper halves of
// their keys. REQUIRES: equal sizes
inline void order_keys(uint64_t seed, std::span<uint64_t> epochs, std::span<uint64_t> purposes) {
  assert(epochs.size() == purposes.size());
  for (size_t i = 0; i < epochs.size(); ++i) {
    const PermutationKey key = key_of_block(seed, epochs[i], purposes[i]);
    epochs[i] = key.low;
    purposes[i] = key.high;
  }
}

}  // namespace millrace::loader::order
