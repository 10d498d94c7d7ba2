// Random: a stream of 64-bit numbers that is the same on every machine and compiler.
//
// splitmix64. Not std::mt19937 with std distributions: their output depends on the implementation.
// For data and tests, not for secrets. Not thread-safe: each thread has its own.
#pragma once

#include <cstdint>

namespace millrace {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    state_ += 0x9e3779b97f4a7c15;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  // Uniform in [0, bound), except for a bias below bound / 2^64. REQUIRES: bound > 0.
  uint64_t below(uint64_t bound) {
    __extension__ using uint128 = unsigned __int128;
    return static_cast<uint64_t>((static_cast<uint128>(next()) * bound) >> 64);
  }

 private:
  uint64_t state_;
};

}  // namespace millrace
