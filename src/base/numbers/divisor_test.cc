#include "base/numbers/divisor.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

TEST(Divisor, DividesLikeTheInstruction) {
  const uint64_t most = ~uint64_t{0};
  const uint64_t values[] = {
      1,        2,   3, 7, 8, 1000, 12'500, 1ull << 32, (1ull << 32) + 1, most / 2, most / 2 + 1,
      most - 1, most};
  for (const uint64_t value : values) {
    const Divisor divisor(value);
    EXPECT_EQ(divisor.value(), value);
    for (const uint64_t times : {uint64_t{0}, uint64_t{1}, uint64_t{2}, most / value}) {
      for (const uint64_t offset : {most, uint64_t{0}, uint64_t{1}}) {  // one less, equal, one more
        const uint64_t number = times * value + offset;
        const auto [quotient, rest] = divisor.divide(number);
        EXPECT_EQ(quotient, number / value) << number << " / " << value;
        EXPECT_EQ(rest, number % value) << number << " / " << value;
      }
    }
  }
}

}  // namespace
}  // namespace millrace
