// KeyedPermutation: the numbers [0, size) in an order that a key names, and its inverse.
//
// A function and no table: any place of the order can be asked for alone, a billion numbers take
// no memory, and equal keys give equal orders on every machine and compiler (golden values in
// permutation_test.cc). Not for secrets. Not std::shuffle: it needs the table, and what it gives
// is left to the library.
//
// A Feistel network over pairs (i / b, i % b) with a * b just above `size`, both near its square
// root, in which each half in turn is rotated by a hash of the other. Numbers that fall into the
// few places past `size` are sent through again. Not the usual network over bits: that has up to
// twice the places that are needed, and the detours cost a mispredicted branch for every second
// number (docs/design/shuffling.md). Up to 16 numbers are shuffled one by one and kept in a word:
// there, a network of this kind would prefer some orders, and a test sees it. Any number of threads
// may share one.
#pragma once

#include <array>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>

namespace millrace {

// Names one order. Distinct names that were drawn by philox4x32 give unrelated orders; keys that
// differ by a small number are mixed as well.
struct PermutationKey {
  uint64_t low = 0;
  uint64_t high = 0;
};

class KeyedPermutation {
 public:
  static constexpr uint64_t kSizeMax = uint64_t{1} << 63;

  // REQUIRES: size <= kSizeMax
  KeyedPermutation(uint64_t size, PermutationKey key);

  // The same numbers in another order, without the divisions that the size needs.
  KeyedPermutation with_key(PermutationKey key) const;

  uint64_t size() const { return size_; }

  // The number at a place. REQUIRES: index < size()
  uint64_t at(uint64_t index) const {
    assert(index < size_);
    if (size_ <= kSmallSizeMax) return keys_[0] >> (4 * index) & 15;
    do index = forward(index);
    while (index >= size_);
    return index;
  }

  // The place of a number: inverse(at(i)) == i. REQUIRES: value < size()
  uint64_t inverse(uint64_t value) const {
    assert(value < size_);
    if (size_ <= kSmallSizeMax) return place_of_digit(value);
    do value = backward(value);
    while (value >= size_);
    return value;
  }

  // at() of first, first + stride, ... The numbers do not depend on each other, and a processor
  // works on several at a time. REQUIRES: all below size()
  template <typename Number>
  void fill(uint64_t first, uint64_t stride, std::span<Number> out) const {
    for (Number& number : out) {
      number = static_cast<Number>(at(first));
      first += stride;
    }
  }

 private:
  static constexpr size_t kRounds = 8;
  static constexpr uint64_t kSmallSizeMax = 16;

  void shuffle_small(PermutationKey key);

  // Each digit is in the word once: what differs from it in nothing is where it stands. Not a
  // second word with the inverse, which takes as long to make as the order.
  uint64_t place_of_digit(uint64_t digit) const {
    constexpr uint64_t kOnes = 0x1111111111111111;
    const uint64_t differs = keys_[0] ^ digit * kOnes;
    const uint64_t has_bit = (differs | differs >> 1 | differs >> 2 | differs >> 3) & kOnes;
    return static_cast<uint64_t>(std::countr_one(has_bit | ~kOnes)) / 4;
  }

  __extension__ using uint128 = unsigned __int128;

  static uint64_t high_product(uint64_t a, uint64_t b) {
    return static_cast<uint64_t>((static_cast<uint128>(a) * b) >> 64);
  }

  // A number in [0, bound) out of the other half and the key of the round: the first product
  // spreads the bits upwards, the shift brings them down, the second spreads them again, and the
  // third scales by the upper ones.
  static uint64_t hash(uint64_t half, uint64_t key, uint64_t bound) {
    uint64_t z = (half ^ key) * 0x9e3779b97f4a7c15;
    z ^= z >> 32;
    z *= 0xd6e8feb86659fd93;
    return high_product(z, bound);
  }

  static uint64_t add(uint64_t half, uint64_t step, uint64_t bound) {
    const uint64_t sum = half + step;
    return sum >= bound ? sum - bound : sum;
  }

  static uint64_t subtract(uint64_t half, uint64_t step, uint64_t bound) {
    return half >= step ? half - step : half + bound - step;
  }

  struct Halves {
    uint64_t left = 0;   // below left_size_
    uint64_t right = 0;  // below right_size_
  };

  Halves split(uint64_t number) const {
    // The reciprocal is rounded down: the quotient is right, or one too small.
    Halves halves{.left = high_product(number, right_reciprocal_)};
    halves.right = number - halves.left * right_size_;
    if (halves.right >= right_size_) {
      ++halves.left;
      halves.right -= right_size_;
    }
    return halves;
  }

  uint64_t join(Halves halves) const { return halves.left * right_size_ + halves.right; }

  uint64_t forward(uint64_t number) const {
    Halves halves = split(number);
    for (size_t round = 0; round < kRounds; round += 2) {
      halves.left = add(halves.left, hash(halves.right, keys_[round], left_size_), left_size_);
      halves.right =
          add(halves.right, hash(halves.left, keys_[round + 1], right_size_), right_size_);
    }
    return join(halves);
  }

  uint64_t backward(uint64_t number) const {
    Halves halves = split(number);
    for (size_t round = kRounds; round > 0; round -= 2) {
      halves.right =
          subtract(halves.right, hash(halves.left, keys_[round - 1], right_size_), right_size_);
      halves.left =
          subtract(halves.left, hash(halves.right, keys_[round - 2], left_size_), left_size_);
    }
    return join(halves);
  }

  uint64_t size_ = 0;
  uint64_t left_size_ = 1;
  uint64_t right_size_ = 1;
  uint64_t right_reciprocal_ = 0;  // floor((2^64 - 1) / right_size_)
  // Of the rounds; of a small size, the order, four bits a number.
  std::array<uint64_t, kRounds> keys_{};
};

}  // namespace millrace
