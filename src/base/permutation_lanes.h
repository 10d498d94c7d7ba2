// PermutationLanes: the arithmetic of keyed permutations and their keys, for many numbers at a
// time.
//
// For permutation.cc and whoever has many keys to derive; others ask KeyedPermutation. There are a
// plain set of functions and sets for AVX2 and AVX-512, which have 8 and 16 numbers in work side by
// side (permutation_wide.h); all give the same numbers (permutation_lanes_test.cc). Any thread may
// call.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/permutation_network.h"

namespace millrace {

struct PermutationLanes {
  // Each number becomes what stands at it (at), or where it stands (inverse), by the kRounds keys
  // that begin at keys[kRounds * which[i]]; where `which` is null, all by the first ones.
  // REQUIRES: 16 < network.size <= kSizeMax, numbers below it
  using Send = void (*)(const PermutationNetwork& network, const uint64_t* keys,
                        const uint32_t* which, uint64_t* numbers, size_t count);
  Send at_each;
  Send inverse_each;

  // Each counter of 128 bits, of which `first` are the lower halves, becomes the block that
  // philox4x32 gives for it and the key.
  void (*philox_each)(uint64_t key, uint64_t* first, uint64_t* second, size_t count);

  // small_order() of each key; it takes the place of the key's lower half.
  void (*small_orders)(uint64_t size, uint64_t* key_low, const uint64_t* key_high, size_t count);

  // Halves are below 2^31 then, and sums of two fit into 32 bits.
  static constexpr uint64_t kSizeMax = uint64_t{1} << 61;
};

// The quickest that this processor has.
const PermutationLanes& permutation_lanes();

// Each by itself, for tests; null where the build has none. The caller asks the processor first.
const PermutationLanes* plain_permutation_lanes();
const PermutationLanes* avx2_permutation_lanes();
const PermutationLanes* avx512_permutation_lanes();

}  // namespace millrace
