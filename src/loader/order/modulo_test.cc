#include "loader/order/modulo.h"

#include <gtest/gtest.h>

#include <set>

namespace millrace::loader::order {
namespace {

TEST(Modulo, PrimeFromIsTheSmallestPrimeNotBelow) {
  EXPECT_EQ(prime_from(0), 2u);
  EXPECT_EQ(prime_from(2), 2u);
  EXPECT_EQ(prime_from(4), 5u);
  EXPECT_EQ(prime_from(1024), 1031u);
  EXPECT_EQ(prime_from(uint64_t{1} << 30), (uint64_t{1} << 30) + 3);
}

TEST(Modulo, InversesAreInverse) {
  for (const uint64_t modulus : {2, 3, 5, 11, 1031}) {
    for (uint64_t factor = 1; factor < modulus; ++factor) {
      ASSERT_EQ(factor * inverse_modulo(factor, modulus) % modulus, 1u) << factor << " " << modulus;
    }
  }
  __extension__ using uint128 = unsigned __int128;
  const uint64_t modulus = (uint64_t{1} << 62) + 1;
  const uint64_t factor = even_step(modulus);
  EXPECT_EQ(static_cast<uint64_t>(uint128{factor} * inverse_modulo(factor, modulus) % modulus), 1u);
  EXPECT_EQ(inverse_modulo(1, 1), 0u);
}

TEST(Modulo, EvenStepVisitsEveryNumberAndFits) {
  for (const uint64_t count : {1, 2, 3, 4, 6, 30, 1000}) {
    std::set<uint64_t> met;
    for (uint64_t i = 0; i < count; ++i) met.insert(i * even_step(count) % count);
    EXPECT_EQ(met.size(), count);
  }
  for (const uint64_t count : {uint64_t{1} << 40, uint64_t{1} << 54, (uint64_t{1} << 55) + 1}) {
    const uint64_t step = even_step(count);
    EXPECT_LE(step, (~uint64_t{0} - (count - 1)) / (count - 1));
    EXPECT_GE(step, 1u);
  }
}

}  // namespace
}  // namespace millrace::loader::order
