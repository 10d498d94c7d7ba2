#include "base/numbers/counter_random.h"

#include <gmock/gmock.h>

#include <vector>

namespace millrace {
namespace {

using testing::ElementsAre;

// The values that the authors published with their code.
TEST(Philox, GivesThePublishedNumbers) {
  EXPECT_THAT(philox4x32({0, 0, 0, 0}, {0, 0}),
              ElementsAre(0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
  const uint32_t all = 0xffffffff;
  EXPECT_THAT(philox4x32({all, all, all, all}, {all, all}),
              ElementsAre(0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd));
  EXPECT_THAT(
      philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
      ElementsAre(0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1));
}

TEST(CounterRandom, GivesItsNumbersInOrderAndByIndex) {
  CounterRandom random(7, 9);
  for (uint64_t i = 0; i < 9; ++i) EXPECT_EQ(random.next(), CounterRandom(7, 9).at(i)) << i;
}

TEST(CounterRandom, StreamsDiffer) {
  EXPECT_NE(CounterRandom(1, 0).at(0), CounterRandom(0, 1).at(0));
  EXPECT_NE(CounterRandom(1, 0).at(0), CounterRandom(2, 0).at(0));
}

TEST(CounterRandom, FillsARangeEvenly) {
  CounterRandom random(3, 0);
  std::vector<int> counts(10);
  for (int i = 0; i < 100'000; ++i) ++counts[random.below(10)];
  for (const int count : counts) EXPECT_NEAR(count, 10'000, 500);
}

TEST(CounterRandom, UniformIsBelowOne) {
  CounterRandom random(5, 0);
  double sum = 0;
  for (int i = 0; i < 100'000; ++i) {
    const double value = random.uniform();
    ASSERT_GE(value, 0);
    ASSERT_LT(value, 1);
    sum += value;
  }
  EXPECT_NEAR(sum / 100'000, 0.5, 0.01);
}

}  // namespace
}  // namespace millrace
