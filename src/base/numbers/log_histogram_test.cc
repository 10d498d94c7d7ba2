#include "base/numbers/log_histogram.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

TEST(LogHistogram, BinsHaveNoGapsOrOverlaps) {
  EXPECT_EQ(LogHistogram::least_of(0), 0u);
  EXPECT_EQ(LogHistogram::greatest_of(0), 0u);
  for (size_t bin = 1; bin < LogHistogram::kBinCount; ++bin) {
    EXPECT_EQ(LogHistogram::least_of(bin), LogHistogram::greatest_of(bin - 1) + 1);
    EXPECT_EQ(LogHistogram::bin_of(LogHistogram::least_of(bin)), bin);
    EXPECT_EQ(LogHistogram::bin_of(LogHistogram::greatest_of(bin)), bin);
  }
  EXPECT_EQ(LogHistogram::greatest_of(64), UINT64_MAX);
}

TEST(LogHistogram, CountsValuesByTheirBits) {
  LogHistogram histogram;
  for (const uint64_t value : {0ull, 1ull, 2ull, 3ull, 4096ull}) histogram.add(value);
  histogram.add(UINT64_MAX, 10);
  EXPECT_EQ(histogram.bins()[0], 1u);
  EXPECT_EQ(histogram.bins()[1], 1u);
  EXPECT_EQ(histogram.bins()[2], 2u);
  EXPECT_EQ(histogram.bins()[13], 1u);
  EXPECT_EQ(histogram.bins()[64], 10u);
  EXPECT_EQ(histogram.total(), 15u);
}

TEST(LogHistogram, MergingAddsTheCounts) {
  LogHistogram one;
  LogHistogram other;
  LogHistogram together;
  for (uint64_t value = 0; value < 100; ++value) {
    (value % 3 == 0 ? one : other).add(value, value);
    together.add(value, value);
  }
  one.merge(other);
  EXPECT_EQ(one, together);
}

}  // namespace
}  // namespace millrace
