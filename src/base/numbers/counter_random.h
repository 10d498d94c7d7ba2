// CounterRandom: random numbers by their index in a stream, the same on every machine and compiler.
//
// Philox4x32-10 (Salmon et al., 2011): a block of four 32-bit numbers is a function of a key and a
// counter, so any number of any stream can be computed directly, without those before it. A stream
// is named by `key` and `stream`; distinct names give independent streams. Not for secrets. Not
// thread-safe, but only a few bytes: each user makes its own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace millrace {

// The published function. counter_random_test.cc has golden values.
constexpr std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter,
                                             std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t left = uint64_t{0xD2511F53} * counter[0];
    const uint64_t right = uint64_t{0xCD9E8D57} * counter[2];
    counter = {
        static_cast<uint32_t>(right >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(right),
        static_cast<uint32_t>(left >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(left)};
    key = {key[0] + 0x9E3779B9, key[1] + 0xBB67AE85};
  }
  return counter;
}

class CounterRandom {
 public:
  constexpr CounterRandom(uint64_t key, uint64_t stream) : key_(key), stream_(stream) {}

  // The number at `index` of the stream, independent of what was drawn before.
  constexpr uint64_t at(uint64_t index) const {
    const auto block = block_at(index / 2);
    const size_t half = index % 2 * 2;
    return uint64_t{block[half + 1]} << 32 | block[half];
  }

  // The next number: at(0), at(1), ...
  constexpr uint64_t next() {
    if (next_ % 2 == 0) block_ = block_at(next_ / 2);
    const size_t half = next_++ % 2 * 2;
    return uint64_t{block_[half + 1]} << 32 | block_[half];
  }

  // Uniform in [0, bound), except for a bias below bound / 2^64. REQUIRES: bound > 0.
  constexpr uint64_t below(uint64_t bound) {
    __extension__ using uint128 = unsigned __int128;
    return static_cast<uint64_t>((static_cast<uint128>(next()) * bound) >> 64);
  }

  // Uniform in [0, 1): 53 bits.
  constexpr double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

 private:
  constexpr std::array<uint32_t, 4> block_at(uint64_t block) const {
    return philox4x32({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32),
                       static_cast<uint32_t>(stream_), static_cast<uint32_t>(stream_ >> 32)},
                      {static_cast<uint32_t>(key_), static_cast<uint32_t>(key_ >> 32)});
  }

  uint64_t key_;
  uint64_t stream_;
  uint64_t next_ = 0;
  std::array<uint32_t, 4> block_{};
};

}  // namespace millrace
