// Divisor: a number by which many others are divided, without the instruction that divides.
//
// On processors of ten years ago a division of 64 bits takes some forty cycles, on those of today
// ten, during which no other one runs; this takes two products. By a reciprocal that is rounded
// down: the quotient is right, or one too small, which a comparison finds.
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
