// LogHistogram: counts values by power of two.
//
// Bin 0 holds the value 0; bin b > 0 holds the values of b bits: 2^(b-1) to 2^b - 1. Counts are
// exact, and merging is addition, so neither order nor grouping matters. Trivially copyable: it may
// be sent as bytes.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace millrace {

class LogHistogram {
 public:
  static constexpr size_t kBinCount = 65;

  static constexpr size_t bin_of(uint64_t value) {
    return static_cast<size_t>(std::bit_width(value));
  }

  // The smallest and the largest value of a bin. REQUIRES: bin < kBinCount.
  static constexpr uint64_t least_of(size_t bin) { return bin == 0 ? 0 : uint64_t{1} << (bin - 1); }
  static constexpr uint64_t greatest_of(size_t bin) {
    return bin == 0 ? 0 : UINT64_MAX >> (kBinCount - 1 - bin);
  }

  void add(uint64_t value, uint64_t weight = 1) { bins_[bin_of(value)] += weight; }

  void merge(const LogHistogram& other) {
    for (size_t bin = 0; bin < kBinCount; ++bin) bins_[bin] += other.bins_[bin];
  }

  bool operator==(const LogHistogram&) const = default;

  const std::array<uint64_t, kBinCount>& bins() const { return bins_; }

  uint64_t total() const {
    uint64_t total = 0;
    for (const uint64_t count : bins_) total += count;
    return total;
  }

 private:
  std::array<uint64_t, kBinCount> bins_ = {};
};

static_assert(std::is_trivially_copyable_v<LogHistogram>);

}  // namespace millrace
