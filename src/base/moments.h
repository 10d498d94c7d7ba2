// Moments: count, sum, mean, variance, least and greatest of whole numbers, exactly and mergeable.
//
// Sums are kept in full, the sum of squares in 192 bits, so that the order of values and the way in
// which parts were merged change no bit of any answer. Not Welford's running mean in doubles, which
// is as accurate but differs from order to order. Plain words of 8 bytes: it may be sent as bytes.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace millrace {

class Moments {
 public:
  __extension__ using Uint128 = unsigned __int128;

  void add(uint64_t value) {
    ++count_;
    min_ = std::min(min_, value);
    max_ = std::max(max_, value);
    set_sum(sum() + value);
    add_squares(static_cast<Uint128>(value) * value, 0);
  }

  void merge(const Moments& other) {
    count_ += other.count_;
    min_ = std::min(min_, other.min_);
    max_ = std::max(max_, other.max_);
    set_sum(sum() + other.sum());
    add_squares(join(other.squares_[1], other.squares_[0]), other.squares_[2]);
  }

  bool operator==(const Moments&) const = default;

  uint64_t count() const { return count_; }
  Uint128 sum() const { return join(sum_[1], sum_[0]); }

  // The sum, or the greatest number where it is over 64 bits.
  uint64_t sum_saturated() const { return sum_[1] == 0 ? sum_[0] : UINT64_MAX; }

  // Of nothing, all of these are 0.
  uint64_t min() const { return count_ == 0 ? 0 : min_; }
  uint64_t max() const { return max_; }
  double mean() const {
    return count_ == 0 ? 0 : static_cast<double>(wide(sum()) / static_cast<long double>(count_));
  }

  // The mean square of the distance to the mean (divided by count, not by count - 1). With the mean
  // as whole + rest / count, it is taken from the whole part exactly, before anything is rounded:
  // values that are great and close together keep all their digits.
  double variance() const {
    if (count_ == 0) return 0;
    const auto whole = static_cast<uint64_t>(sum() / count_);
    const auto rest = static_cast<uint64_t>(sum() % count_);
    // sum of (value - whole)^2 = squares - whole * (2 * sum - count * whole), modulo 2^192.
    const Uint128 factor = sum() + rest;
    const Uint128 low = static_cast<Uint128>(whole) * static_cast<uint64_t>(factor);
    const Uint128 high = static_cast<Uint128>(whole) * static_cast<uint64_t>(factor >> 64) +
                         static_cast<uint64_t>(low >> 64);
    const Uint128 product = join(static_cast<uint64_t>(high), static_cast<uint64_t>(low));
    const Uint128 squares = join(squares_[1], squares_[0]);
    const uint64_t borrow = squares < product ? 1 : 0;
    const uint64_t top = squares_[2] - static_cast<uint64_t>(high >> 64) - borrow;
    const long double distances =
        std::ldexp(static_cast<long double>(top), 128) + wide(squares - product);
    const auto count = static_cast<long double>(count_);
    const auto part = static_cast<long double>(rest);
    return static_cast<double>((distances - part * (part / count)) / count);
  }

  double standard_deviation() const { return std::sqrt(variance()); }

 private:
  static Uint128 join(uint64_t high, uint64_t low) {
    return static_cast<Uint128>(high) << 64 | low;
  }
  static long double wide(Uint128 value) {
    return std::ldexp(static_cast<long double>(static_cast<uint64_t>(value >> 64)), 64) +
           static_cast<long double>(static_cast<uint64_t>(value));
  }
  void set_sum(Uint128 value) {
    sum_[0] = static_cast<uint64_t>(value);
    sum_[1] = static_cast<uint64_t>(value >> 64);
  }
  void add_squares(Uint128 value, uint64_t top) {
    const Uint128 total = join(squares_[1], squares_[0]) + value;
    squares_[2] += top + (total < value ? 1 : 0);
    squares_[0] = static_cast<uint64_t>(total);
    squares_[1] = static_cast<uint64_t>(total >> 64);
  }

  uint64_t count_ = 0;
  uint64_t min_ = std::numeric_limits<uint64_t>::max();
  uint64_t max_ = 0;
  uint64_t sum_[2] = {};      // low word first
  uint64_t squares_[3] = {};  // low word first
};

static_assert(sizeof(Moments) == 64);
static_assert(std::is_trivially_copyable_v<Moments>);

}  // namespace millrace
