#include "base/numbers/statistics.h"

#include <gtest/gtest.h>

#include <vector>

namespace millrace {
namespace {

TEST(Quantile, InterpolatesBetweenNeighbours) {
  std::vector<double> values = {40, 10, 30, 20};
  EXPECT_DOUBLE_EQ(quantile(values, 0.5), 25);
  EXPECT_DOUBLE_EQ(quantile(values, 0.25), 17.5);
}

TEST(Quantile, EndsAreTheMinimumAndTheMaximum) {
  std::vector<double> values = {3, 1, 2};
  EXPECT_DOUBLE_EQ(quantile(values, 0), 1);
  EXPECT_DOUBLE_EQ(quantile(values, 1), 3);
}

TEST(Quantile, OfOneValueIsThatValue) {
  std::vector<double> values = {7};
  EXPECT_DOUBLE_EQ(quantile(values, 0.99), 7);
}

}  // namespace
}  // namespace millrace
