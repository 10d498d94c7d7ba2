#include "base/numbers/permutation.h"

#include <cmath>

namespace millrace {
namespace {

// The smallest number whose square is at least `value`. Floating point gives an estimate, which
// rounding may make differ between machines; integer arithmetic decides.
uint64_t root_above(uint64_t value) {
  auto root = static_cast<uint64_t>(std::sqrt(static_cast<double>(value)));
  while (root * root >= value && root > 0) --root;
  while (root * root < value) ++root;
  return root;
}

}  // namespace

KeyedPermutation::KeyedPermutation(uint64_t size, PermutationKey key) {
  assert(size <= kSizeMax);
  const uint64_t left_size = std::max<uint64_t>(root_above(size), 1);
  const uint64_t right_size = std::max<uint64_t>((size + left_size - 1) / left_size, 1);
  network_ = {.size = size,
              .left_size = left_size,
              .right_size = right_size,
              .right_reciprocal = ~uint64_t{0} / right_size};
  *this = with_key(key);
}

KeyedPermutation KeyedPermutation::with_key(PermutationKey key) const {
  KeyedPermutation other = *this;
  if (is_small()) {
    other.keys_[0] = small_order(size(), key);
    return other;
  }
  for (size_t round = 0; round < kRounds; ++round) other.keys_[round] = drawn_number(key, round);
  return other;
}

}  // namespace millrace
