// KeyedPermutation: the numbers [0, size) in an order that a key names, and its inverse.
//
// A function and no table: any place of the order can be asked for alone, a billion numbers take
// no memory, and equal keys give equal orders on every machine and compiler (golden values in
// permutation_test.cc). Not for secrets. Not std::shuffle: it needs the table, and what it gives
// is left to the library. How it is computed: permutation_network.h. Any number of threads may
// share one.
//
// One that is asked about many numbers is quicker with tables: tabled_permutation.h.
#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/permutation_network.h"

namespace millrace {

class KeyedPermutation {
 public:
  static constexpr uint64_t kSizeMax = uint64_t{1} << 63;
  static constexpr size_t kRounds = PermutationNetwork::kRounds;
  using RoundKeys = std::array<uint64_t, kRounds>;

  // REQUIRES: size <= kSizeMax
  KeyedPermutation(uint64_t size, PermutationKey key);

  // The same numbers in another order, without the divisions that the size needs.
  KeyedPermutation with_key(PermutationKey key) const;

  // What with_key() makes of a key: whoever keeps it derives it once.
  const RoundKeys& round_keys() const { return keys_; }
  KeyedPermutation with_round_keys(const RoundKeys& keys) const {
    KeyedPermutation other = *this;
    other.keys_ = keys;
    return other;
  }

  uint64_t size() const { return network_.size; }
  const PermutationNetwork& network() const { return network_; }
  // So few are shuffled one by one and kept in a word, which is the first of the round keys.
  bool is_small() const { return size() <= kSmallSizeMax; }

  // The number at a place. REQUIRES: index < size()
  uint64_t at(uint64_t index) const {
    assert(index < size());
    if (is_small()) return keys_[0] >> (4 * index) & 15;
    return network_.at(keys_.data(), index);
  }

  // The place of a number: inverse(at(i)) == i. REQUIRES: value < size()
  uint64_t inverse(uint64_t value) const {
    assert(value < size());
    if (is_small()) return place_of_digit(keys_[0], value);
    return network_.inverse(keys_.data(), value);
  }

  // Each number becomes at() of it. Several are in work at a time. REQUIRES: all below size()
  void at_each(std::span<uint64_t> numbers) const;

  // at() of first, first + stride, ... REQUIRES: all below size()
  template <typename Number>
  void fill(uint64_t first, uint64_t stride, std::span<Number> out) const {
    std::array<uint64_t, kTogether> numbers;
    for (; !out.empty(); out = out.subspan(std::min(kTogether, out.size()))) {
      const auto here = std::span(numbers).first(std::min(kTogether, out.size()));
      for (uint64_t& number : here) {
        number = first;
        first += stride;
      }
      at_each(here);
      for (size_t i = 0; i < here.size(); ++i) out[i] = static_cast<Number>(here[i]);
    }
  }

 private:
  static constexpr uint64_t kSmallSizeMax = 16;
  static constexpr size_t kTogether = 64;

  PermutationNetwork network_;
  // Of the rounds; of a small size, the order, four bits a number.
  RoundKeys keys_{};
};

}  // namespace millrace
