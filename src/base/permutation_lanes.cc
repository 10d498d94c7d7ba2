#include "base/permutation_lanes.h"

#include <array>

#include "base/counter_random.h"

namespace millrace {
namespace {

void at_each_plain(const PermutationNetwork& network, const uint64_t* keys, uint64_t* numbers,
                   size_t count) {
  for (size_t i = 0; i < count; ++i) numbers[i] = network.at(keys, numbers[i]);
}

std::array<uint32_t, 2> words_of(uint64_t number) {
  return {static_cast<uint32_t>(number), static_cast<uint32_t>(number >> 32)};
}

void philox_each_plain(uint64_t key, uint64_t* first, uint64_t* second, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const auto [a, b] = words_of(first[i]);
    const auto [c, d] = words_of(second[i]);
    const auto block = philox4x32({a, b, c, d}, words_of(key));
    first[i] = uint64_t{block[1]} << 32 | block[0];
    second[i] = uint64_t{block[3]} << 32 | block[2];
  }
}

const PermutationLanes* best_lanes() {
#ifdef __x86_64__
  const bool has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq");
  if (has_avx512 && avx512_permutation_lanes() != nullptr) return avx512_permutation_lanes();
  if (__builtin_cpu_supports("avx2") && avx2_permutation_lanes() != nullptr) {
    return avx2_permutation_lanes();
  }
#endif
  return plain_permutation_lanes();
}

}  // namespace

const PermutationLanes* plain_permutation_lanes() {
  static constexpr PermutationLanes kLanes{.at_each = &at_each_plain,
                                           .philox_each = &philox_each_plain};
  return &kLanes;
}

const PermutationLanes& permutation_lanes() {
  static const PermutationLanes& lanes = *best_lanes();
  return lanes;
}

}  // namespace millrace
