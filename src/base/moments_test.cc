#include "base/moments.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/random.h"

namespace millrace {
namespace {

Moments of(const std::vector<uint64_t>& values) {
  Moments moments;
  for (const uint64_t value : values) moments.add(value);
  return moments;
}

TEST(Moments, OfNothingAreZero) {
  const Moments none;
  EXPECT_EQ(none.count(), 0u);
  EXPECT_EQ(none.min(), 0u);
  EXPECT_EQ(none.max(), 0u);
  EXPECT_EQ(none.sum_saturated(), 0u);
  EXPECT_EQ(none.mean(), 0);
  EXPECT_EQ(none.variance(), 0);
}

TEST(Moments, SayWhatAFewValuesAre) {
  const Moments few = of({2, 4, 4, 4, 5, 5, 7, 9});
  EXPECT_EQ(few.count(), 8u);
  EXPECT_EQ(few.sum_saturated(), 40u);
  EXPECT_EQ(few.min(), 2u);
  EXPECT_EQ(few.max(), 9u);
  EXPECT_DOUBLE_EQ(few.mean(), 5);
  EXPECT_DOUBLE_EQ(few.variance(), 4);
  EXPECT_DOUBLE_EQ(few.standard_deviation(), 2);
}

TEST(Moments, KeepTheVarianceOfGreatValuesThatLieClose) {
  const uint64_t base = uint64_t{1} << 62;  // squares in long doubles would keep nothing of the 1
  EXPECT_DOUBLE_EQ(of({base, base + 1, base + 2}).variance(), 2.0 / 3);
  EXPECT_DOUBLE_EQ(of({UINT64_MAX, UINT64_MAX - 2}).variance(), 1);
  EXPECT_DOUBLE_EQ(of({UINT64_MAX, UINT64_MAX}).variance(), 0);
}

TEST(Moments, SumsPastSixtyFourBits) {
  const Moments two = of({UINT64_MAX, UINT64_MAX});
  EXPECT_TRUE(two.sum() == static_cast<Moments::Uint128>(UINT64_MAX) * 2);
  EXPECT_EQ(two.sum_saturated(), UINT64_MAX);
  EXPECT_DOUBLE_EQ(two.mean(), static_cast<double>(UINT64_MAX));
  const Moments extremes = of({0, UINT64_MAX});
  EXPECT_DOUBLE_EQ(extremes.standard_deviation(), static_cast<double>(UINT64_MAX) / 2);
}

TEST(Moments, AreTheSameInEveryOrderAndGrouping) {
  Random random(7);
  std::vector<uint64_t> values;
  for (int i = 0; i < 1000; ++i) values.push_back(random.next() >> random.below(64));
  const Moments forwards = of(values);
  const Moments backwards = of({values.rbegin(), values.rend()});
  EXPECT_EQ(forwards, backwards);
  Moments merged = of({values.begin() + 600, values.end()});
  merged.merge(Moments{});
  Moments middle = of({values.begin() + 10, values.begin() + 600});
  middle.merge(of({values.begin(), values.begin() + 10}));
  merged.merge(middle);
  EXPECT_EQ(forwards, merged);
  EXPECT_EQ(forwards.variance(), merged.variance());
}

TEST(Moments, AgreeWithTwoPassesInDoubles) {
  Random random(8);
  std::vector<uint64_t> values;
  for (int i = 0; i < 5000; ++i) values.push_back(300'000'000 + random.below(1000));
  double sum = 0;
  for (const uint64_t value : values) sum += static_cast<double>(value);
  const double mean = sum / 5000;
  double squares = 0;
  for (const uint64_t value : values) {
    squares += (static_cast<double>(value) - mean) * (static_cast<double>(value) - mean);
  }
  EXPECT_NEAR(of(values).mean(), mean, 1e-6);
  EXPECT_NEAR(of(values).variance(), squares / 5000, squares / 5000 * 1e-9);
}

}  // namespace
}  // namespace millrace
