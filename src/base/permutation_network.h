// PermutationNetwork: the arithmetic of a keyed permutation, for one number at a time.
//
// A Feistel network over pairs (i / b, i % b) with a * b just above `size`, both near its square
// root, in which each half in turn is rotated by a hash of the other. Numbers that fall into the
// few places past `size` are sent through again. Not the usual network over bits: that has up to
// twice the places that are needed, and the detours cost a mispredicted branch for every second
// number (docs/design/shuffling.md). For permutation.h and permutation_lanes.h; what it computes is
// a promise (golden values in permutation_test.cc).
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace millrace {

// Names one order. Distinct names that were drawn by philox4x32 give unrelated orders; keys that
// differ by a small number are mixed as well.
struct PermutationKey {
  uint64_t low = 0;
  uint64_t high = 0;
};

struct PermutationNetwork {
  static constexpr size_t kRounds = 8;

  uint64_t size = 0;  // above 1
  uint64_t left_size = 1;
  uint64_t right_size = 1;
  uint64_t right_reciprocal = 0;  // floor((2^64 - 1) / right_size)

  // The number at a place, by kRounds keys, and the place of a number. REQUIRES: below size
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

  // A number in [0, bound) out of the other half and the key of the round: the first product
  // spreads the bits upwards, the shift brings them down, the second spreads them again, and the
  // third scales by the upper ones.
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

  // A difference below 0 has gone round, and is back below the bound when that is added. Not by a
  // comparison of the two, of which the compiler makes a branch that is mispredicted often.
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

// The index-th number that a key gives. Both words take part before they are mixed, each time in
// another way: keys that agree in one number do not in the next. Mixed by splitmix64's step from a
// place of its stream to a number.
inline uint64_t drawn_number(PermutationKey key, uint64_t index) {
  uint64_t z =
      (key.low + index * 0x9e3779b97f4a7c15) ^ std::rotl(key.high, static_cast<int>(7 * index));
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

// The order of up to 16 numbers that a key names: a word of four-bit digits, shuffled by Fisher and
// Yates. A network over so few would prefer some orders, and a test sees it.
inline uint64_t small_order(uint64_t size, PermutationKey key) {
  uint64_t order = 0xfedcba9876543210;
  for (uint64_t last = size; last > 1; --last) {
    const uint64_t shift = 4 * (last - 1);
    const uint64_t other_shift =
        4 * PermutationNetwork::high_product(drawn_number(key, last), last);
    const uint64_t change = (order >> shift ^ order >> other_shift) & 15;  // 0 of one with itself
    order ^= change << shift ^ change << other_shift;
  }
  return order;
}

// Where a digit stands. Each is in the word once: what differs from it in nothing is its place. Not
// a second word with the inverse, which takes as long to make as the order.
inline uint64_t place_of_digit(uint64_t order, uint64_t digit) {
  constexpr uint64_t kOnes = 0x1111111111111111;
  const uint64_t differs = order ^ digit * kOnes;
  const uint64_t has_bit = (differs | differs >> 1 | differs >> 2 | differs >> 3) & kOnes;
  return static_cast<uint64_t>(std::countr_one(has_bit | ~kOnes)) / 4;
}

}  // namespace millrace
