// KeyedPermutation: the numbers [0, size) in an order selected by a key, and its inverse.
//
// A function, not a table: any position of the order can be computed alone, a billion numbers take
// no memory, and equal keys give equal orders on every machine and compiler (golden values in
// permutation_test.cc). Not for secrets. Not std::shuffle: it needs the table, and its result
// depends on the library. Thread-safe.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>

namespace millrace {

// Selects an order. Distinct keys that were drawn by philox4x32 give unrelated orders; keys that
// differ by a small number are mixed well too.
struct PermutationKey {
  uint64_t low = 0;
  uint64_t high = 0;
};

// The arithmetic of a keyed permutation, for one number at a time.
//
// A Feistel network over pairs (i / b, i % b) with a * b just above `size`, both near its square
// root. Each half in turn is rotated by a hash of the other. A result past `size` goes through the
// network again. A network over bits would have up to twice as many results past `size`, and each
// costs a mispredicted branch (docs/design/shuffling.md).
struct PermutationNetwork {
  static constexpr size_t kRounds = 8;

  uint64_t size = 0;  // > 1
  uint64_t left_size = 1;
  uint64_t right_size = 1;
  uint64_t right_reciprocal = 0;  // floor((2^64 - 1) / right_size)

  // The number at a position, with kRounds keys, and the position of a number. REQUIRES: the
  // argument is below size.
  uint64_t at(const uint64_t* keys, uint64_t index) const {
    do index = forward(keys, index);
    while (index >= size);
    return index;
  }
  uint64_t inverse(const uint64_t* keys, uint64_t value) const {
    do value = backward(keys, value);
    while (value >= size);
    return value;
  }

  __extension__ using uint128 = unsigned __int128;
  static uint64_t high_product(uint64_t a, uint64_t b) {
    return static_cast<uint64_t>((static_cast<uint128>(a) * b) >> 64);
  }

  static constexpr uint64_t kFirstFactor = 0x9e3779b97f4a7c15;
  static constexpr uint64_t kSecondFactor = 0xd6e8feb86659fd93;

  // Hashes the other half and the key of the round to a number in [0, bound). The first product
  // spreads the bits upwards, the shift brings them down, the second product spreads them again,
  // and the third scales the upper ones to the bound.
  static uint64_t hash(uint64_t half, uint64_t key, uint64_t bound) {
    uint64_t z = (half ^ key) * kFirstFactor;
    z ^= z >> 32;
    z *= kSecondFactor;
    return high_product(z, bound);
  }

  static uint64_t add(uint64_t half, uint64_t step, uint64_t bound) {
    const uint64_t sum = half + step;
    return sum >= bound ? sum - bound : sum;
  }

  // A negative difference wraps around, and adding the bound brings it back below the bound. Not a
  // comparison of the two, which compilers turn into a branch that is often mispredicted.
  static uint64_t subtract(uint64_t half, uint64_t step, uint64_t bound) {
    const uint64_t difference = half - step;
    return std::min(difference, difference + bound);
  }

  struct Halves {
    uint64_t left = 0;   // below left_size
    uint64_t right = 0;  // below right_size
  };

  Halves split(uint64_t number) const {
    // The reciprocal is rounded down: the quotient is right, or one too small.
    Halves halves{.left = high_product(number, right_reciprocal)};
    halves.right = number - halves.left * right_size;
    if (halves.right >= right_size) {
      ++halves.left;
      halves.right -= right_size;
    }
    return halves;
  }

  uint64_t join(Halves halves) const { return halves.left * right_size + halves.right; }

 private:
  uint64_t forward(const uint64_t* keys, uint64_t number) const {
    Halves halves = split(number);
    for (size_t round = 0; round < kRounds; round += 2) {
      halves.left = add(halves.left, hash(halves.right, keys[round], left_size), left_size);
      halves.right = add(halves.right, hash(halves.left, keys[round + 1], right_size), right_size);
    }
    return join(halves);
  }

  uint64_t backward(const uint64_t* keys, uint64_t number) const {
    Halves halves = split(number);
    for (size_t round = kRounds; round > 0; round -= 2) {
      halves.right =
          subtract(halves.right, hash(halves.left, keys[round - 1], right_size), right_size);
      halves.left =
          subtract(halves.left, hash(halves.right, keys[round - 2], left_size), left_size);
    }
    return join(halves);
  }
};

// The index-th number that a key gives. Both words are combined before mixing, each time
// differently, so that keys that agree in one number differ in the next. The mixing is splitmix64's
// output function.
inline uint64_t drawn_number(PermutationKey key, uint64_t index) {
  uint64_t z =
      (key.low + index * 0x9e3779b97f4a7c15) ^ std::rotl(key.high, static_cast<int>(7 * index));
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

// The order of up to 16 numbers for a key: a word of four-bit digits, shuffled by Fisher-Yates. For
// so few numbers a network would prefer some orders, which a test detects.
inline uint64_t small_order(uint64_t size, PermutationKey key) {
  uint64_t order = 0xfedcba9876543210;
  for (uint64_t last = size; last > 1; --last) {
    const uint64_t shift = 4 * (last - 1);
    const uint64_t other_shift =
        4 * PermutationNetwork::high_product(drawn_number(key, last), last);
    const uint64_t change = (order >> shift ^ order >> other_shift) & 15;  // 0 if they are the same
    order ^= change << shift ^ change << other_shift;
  }
  return order;
}

// The position of a digit. Each digit is in the word once, so its position is the one that does not
// differ from it. Not a second word with the inverse, which takes as long to compute as the order.
inline uint64_t place_of_digit(uint64_t order, uint64_t digit) {
  constexpr uint64_t kOnes = 0x1111111111111111;
  const uint64_t differs = order ^ digit * kOnes;
  const uint64_t has_bit = (differs | differs >> 1 | differs >> 2 | differs >> 3) & kOnes;
  return static_cast<uint64_t>(std::countr_one(has_bit | ~kOnes)) / 4;
}

class KeyedPermutation {
 public:
  static constexpr uint64_t kSizeMax = uint64_t{1} << 63;
  static constexpr size_t kRounds = PermutationNetwork::kRounds;
  using RoundKeys = std::array<uint64_t, kRounds>;

  // REQUIRES: size <= kSizeMax
  KeyedPermutation(uint64_t size, PermutationKey key);

  // The same numbers in another order. Cheaper: skips the divisions that the size needs.
  KeyedPermutation with_key(PermutationKey key) const;

  // The keys that with_key() derives. Keep them to derive them only once.
  const RoundKeys& round_keys() const { return keys_; }
  KeyedPermutation with_round_keys(const RoundKeys& keys) const {
    KeyedPermutation other = *this;
    other.keys_ = keys;
    return other;
  }

  uint64_t size() const { return network_.size; }
  const PermutationNetwork& network() const { return network_; }
  // Small sets are shuffled one by one. Their order is in the first round key.
  bool is_small() const { return size() <= kSmallSizeMax; }

  // The number at a position. REQUIRES: index < size()
  uint64_t at(uint64_t index) const {
    assert(index < size());
    if (is_small()) return keys_[0] >> (4 * index) & 15;
    return network_.at(keys_.data(), index);
  }

  // The position of a number: inverse(at(i)) == i. REQUIRES: value < size()
  uint64_t inverse(uint64_t value) const {
    assert(value < size());
    if (is_small()) return place_of_digit(keys_[0], value);
    return network_.inverse(keys_.data(), value);
  }

  // Replaces each number n by at(n). REQUIRES: all are below size()
  void at_each(std::span<uint64_t> numbers) const {
    for (uint64_t& number : numbers) number = at(number);
  }

  // Fills `out` with at(first), at(first + stride), ... REQUIRES: all arguments are below size()
  template <typename Number>
  void fill(uint64_t first, uint64_t stride, std::span<Number> out) const {
    for (Number& number : out) {
      number = static_cast<Number>(at(first));
      first += stride;
    }
  }

 private:
  static constexpr uint64_t kSmallSizeMax = 16;

  PermutationNetwork network_;
  // One key per round. For a small size: the order, four bits per number.
  RoundKeys keys_{};
};

}  // namespace millrace
