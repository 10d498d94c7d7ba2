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
  // Each number becomes what stands at it, by the kRounds keys.
  // REQUIRES: 16 < network.size <= kSizeMax, numbers below it
  void (*at_each)(const PermutationNetwork& network, const uint64_t* keys, uint64_t* numbers,
                  size_t count);

  // Each counter of 128 bits, of which `first` are the lower halves, becomes the block that
  // philox4x32 gives for it and the key.
  void (*philox_each)(uint64_t key, uint64_t* first, uint64_t* second, size_t count);

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
