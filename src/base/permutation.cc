#include "base/permutation.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace millrace {
namespace {

// The least number whose square is at least `value`. Floating point comes near, and differs between
// machines by rounding at most; whole numbers decide.
uint64_t root_above(uint64_t value) {
  auto root = static_cast<uint64_t>(std::sqrt(static_cast<double>(value)));
  while (root * root >= value && root > 0) --root;
  while (root * root < value) ++root;
  return root;
}

// splitmix64's step from a place of its stream to a number.
uint64_t mixed(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

// Both words take part before they are mixed, each time in another way: keys that agree in one
// number do not in the next.
uint64_t drawn(PermutationKey key, uint64_t index) {
  return mixed((key.low + index * 0x9e3779b97f4a7c15) ^
               std::rotl(key.high, static_cast<int>(7 * index)));
}

}  // namespace

KeyedPermutation::KeyedPermutation(uint64_t size, PermutationKey key) : size_(size) {
  assert(size <= kSizeMax);
  left_size_ = std::max<uint64_t>(root_above(size), 1);
  right_size_ = std::max<uint64_t>((size + left_size_ - 1) / left_size_, 1);
  right_reciprocal_ = ~uint64_t{0} / right_size_;
  *this = with_key(key);
}

KeyedPermutation KeyedPermutation::with_key(PermutationKey key) const {
  KeyedPermutation other = *this;
  if (size_ <= kSmallSizeMax) {
    other.shuffle_small(key);
    return other;
  }
  for (size_t round = 0; round < kRounds; ++round) other.keys_[round] = drawn(key, round);
  return other;
}

// Fisher and Yates, over the sixteen digits of a word.
void KeyedPermutation::shuffle_small(PermutationKey key) {
  uint64_t order = 0xfedcba9876543210;
  for (uint64_t last = size_; last > 1; --last) {
    const uint64_t shift = 4 * (last - 1);
    const uint64_t other_shift = 4 * high_product(drawn(key, last), last);
    const uint64_t change = (order >> shift ^ order >> other_shift) & 15;
    order ^= change << shift;
    if (shift != other_shift) order ^= change << other_shift;
  }
  keys_[0] = order;
}

}  // namespace millrace
