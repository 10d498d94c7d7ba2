#include "base/permutation.h"

#include <cmath>
#include <numeric>

#include "base/permutation_lanes.h"

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

const PermutationLanes& lanes_for(uint64_t size) {
  return size > PermutationLanes::kSizeMax ? *plain_permutation_lanes() : permutation_lanes();
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

void KeyedPermutation::at_each(std::span<uint64_t> numbers) const {
  if (is_small()) {
    for (uint64_t& number : numbers) number = at(number);
    return;
  }
  lanes_for(size()).at_each(network_, keys_.data(), nullptr, numbers.data(), numbers.size());
}

void KeyedPermutation::at_each_by(std::span<const RoundKeys> keys, std::span<const uint32_t> which,
                                  std::span<uint64_t> numbers) const {
  assert(which.size() == numbers.size());
  if (is_small()) {
    for (size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] = keys[which[i]][0] >> (4 * numbers[i]) & 15;
    }
    return;
  }
  lanes_for(size()).at_each(network_, keys.data()->data(), which.data(), numbers.data(),
                            numbers.size());
}

void KeyedPermutation::inverse_each_by(std::span<const RoundKeys> keys,
                                       std::span<const uint32_t> which,
                                       std::span<uint64_t> numbers) const {
  assert(which.size() == numbers.size());
  if (is_small()) {
    for (size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] = place_of_digit(keys[which[i]][0], numbers[i]);
    }
    return;
  }
  lanes_for(size()).inverse_each(network_, keys.data()->data(), which.data(), numbers.data(),
                                 numbers.size());
}

void KeyedPermutation::inverse_by_keys(std::span<uint64_t> low, std::span<uint64_t> high,
                                       std::span<uint64_t> numbers) const {
  assert(low.size() == numbers.size() && high.size() == numbers.size());
  if (is_small()) {
    permutation_lanes().small_orders(size(), low.data(), high.data(), low.size());
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = place_of_digit(low[i], numbers[i]);
    return;
  }
  std::array<uint64_t, kTogether * kRounds> keys;
  std::array<uint32_t, kTogether> rows;
  std::iota(rows.begin(), rows.end(), 0);
  for (size_t first = 0; first < numbers.size(); first += kTogether) {
    const size_t count = std::min(kTogether, numbers.size() - first);
    for (size_t i = 0; i < count * kRounds; ++i) {
      const size_t of = first + i / kRounds;
      keys[i] = drawn_number({.low = low[of], .high = high[of]}, i % kRounds);
    }
    lanes_for(size()).inverse_each(network_, keys.data(), rows.data(), numbers.data() + first,
                                   count);
  }
}

void KeyedPermutation::all_by_keys(std::span<uint64_t> low, std::span<uint64_t> high,
                                   std::span<uint32_t> out) const {
  assert(low.size() == high.size() && out.size() == low.size() * size());
  if (!is_small()) {
    for (size_t i = 0; i < low.size(); ++i) {
      with_key({.low = low[i], .high = high[i]}).fill(0, 1, out.subspan(i * size(), size()));
    }
    return;
  }
  permutation_lanes().small_orders(size(), low.data(), high.data(), low.size());
  uint32_t* next = out.data();
  for (uint64_t order : low) {
    for (uint64_t i = 0; i < size(); ++i, order >>= 4) *next++ = order & 15;
  }
}

}  // namespace millrace
