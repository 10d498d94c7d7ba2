// SequenceHash: a hash of a sequence of numbers, to tell whether two sequences are equal.
//
// It is a polynomial, so pieces of a sequence can be hashed separately and joined later.
#pragma once

#include <compare>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>

namespace millrace::analyze {

struct SequenceHash {
  static constexpr uint64_t kBase = 0x9e3779b97f4a7c15U;  // odd

  uint64_t hash = 0;
  uint64_t count = 0;

  bool operator==(const SequenceHash&) const = default;

  static constexpr uint64_t mix(uint64_t value) {
    value ^= value >> 31;
    value *= 0x7fb5d329728ea185U;
    value ^= value >> 27;
    value *= 0x81dadef4bc2dd44dU;
    return value ^ value >> 33;
  }

  void add(uint64_t value) {
    hash = hash * kBase + mix(value);
    ++count;
  }

  // Joins the piece that follows this one.
  void append(const SequenceHash& next) {
    hash = hash * power(next.count) + next.hash;
    count += next.count;
  }

 private:
  static constexpr uint64_t power(uint64_t exponent) {
    uint64_t result = 1;
    for (uint64_t base = kBase; exponent != 0; exponent >>= 1, base *= base) {
      if ((exponent & 1) != 0) result *= base;
    }
    return result;
  }
};

// Which piece of a sequence: what a thread read in an epoch, as far as a block shows.
struct SequenceKey {
  uint32_t thread = 0;
  int64_t epoch = -1;
  uint64_t block = 0;

  auto operator<=>(const SequenceKey&) const = default;
};

// The chance that twelve samples are in order by accident is one in 479 million. Fewer prove
// nothing.
inline constexpr uint64_t kSamplesMin = 12;

// The orders of samples by rank and epoch: the sums of those of its threads, so that it does not
// matter which worker process had which share.
using Orders = std::map<std::pair<uint32_t, int64_t>, SequenceHash>;

struct RepeatedOrders {
  uint64_t compared = 0;  // epochs that follow another one of the same rank
  uint64_t repeated = 0;  // those with the same order
};

inline RepeatedOrders count_repeated(const Orders& orders) {
  RepeatedOrders counts;
  for (auto it = orders.begin(); it != orders.end(); ++it) {
    const auto next = std::next(it);
    if (next == orders.end() || next->first.first != it->first.first) continue;
    if (it->second.count < kSamplesMin) continue;
    ++counts.compared;
    if (next->second == it->second) ++counts.repeated;
  }
  return counts;
}

}  // namespace millrace::analyze
