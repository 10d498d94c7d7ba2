// Divisor: divides many numbers by the same one, without the division instruction.
//
// A 64-bit division takes about forty cycles on ten-year-old processors and ten on current ones,
// and divisions do not overlap. This takes two multiplications. It multiplies by a reciprocal that
// is rounded down, so the quotient is right or one too small, which a comparison detects.
#pragma once

#include <cassert>
#include <cstdint>

namespace millrace {

class Divisor {
 public:
  // REQUIRES: value > 0
  explicit Divisor(uint64_t value) : value_(value), reciprocal_(~uint64_t{0} / value) {
    assert(value > 0);
  }

  uint64_t value() const { return value_; }

  struct Parts {
    uint64_t quotient = 0;
    uint64_t rest = 0;
  };
  Parts divide(uint64_t number) const {
    __extension__ using uint128 = unsigned __int128;
    Parts parts{static_cast<uint64_t>((static_cast<uint128>(number) * reciprocal_) >> 64)};
    parts.rest = number - parts.quotient * value_;
    if (parts.rest >= value_) {
      ++parts.quotient;
      parts.rest -= value_;
    }
    return parts;
  }

 private:
  uint64_t value_;
  uint64_t reciprocal_;  // floor((2^64 - 1) / value)
};

}  // namespace millrace
