#include "bench/workload/times.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace millrace::bench {
namespace {

using Kind = TimeModel::Kind;

struct Moments {
  double mean = 0;
  double stdev = 0;
  double min = 0;
};

Moments moments_of(const TimeModel& model) {
  constexpr int kCount = 40000;
  TimeSampler sampler(model, 7);
  double sum = 0;
  double squares = 0;
  double min = sampler.next();
  for (int i = 0; i < kCount; ++i) {
    const double draw = sampler.next();
    sum += draw;
    squares += draw * draw;
    min = std::min(min, draw);
  }
  const double mean = sum / kCount;
  return {mean, std::sqrt(squares / kCount - mean * mean), min};
}

TEST(TimeSampler, EqualSeedsDrawEqualTimes) {
  const TimeModel model{Kind::kGamma, 2, 0.5};
  TimeSampler one(model, 1);
  TimeSampler same(model, 1);
  TimeSampler other(model, 2);
  int differences = 0;
  for (int i = 0; i < 100; ++i) {
    const double draw = one.next();
    EXPECT_EQ(draw, same.next());
    differences += draw != other.next() ? 1 : 0;
  }
  EXPECT_EQ(differences, 100);
}

TEST(TimeSampler, AConstantIsConstant) {
  TimeSampler sampler({Kind::kConstant, 0.25, 0}, 1);
  EXPECT_EQ(sampler.next(), 0.25);
  EXPECT_EQ(sampler.next(), 0.25);
}

// The tolerances are several standard errors of 40,000 draws.
TEST(TimeSampler, DistributionsHaveTheirMeanAndDeviation) {
  const struct {
    TimeModel model;
    double mean;
    double stdev;
  } kCases[] = {
      {{Kind::kNormal, 10, 2}, 10, 2},     {{Kind::kUniform, 1, 3}, 2, 2 / std::sqrt(12.0)},
      {{Kind::kGamma, 4, 0.5}, 2, 1},      {{Kind::kGamma, 0.5, 2}, 1, std::sqrt(2.0)},
      {{Kind::kExponential, 3, 0}, 3, 3},  {{Kind::kPoisson, 3, 0}, 3, std::sqrt(3.0)},
      {{Kind::kPoisson, 100, 0}, 100, 10},
  };
  for (const auto& each : kCases) {
    const Moments moments = moments_of(each.model);
    EXPECT_NEAR(moments.mean, each.mean, 0.05 * each.stdev) << static_cast<int>(each.model.kind);
    EXPECT_NEAR(moments.stdev, each.stdev, 0.05 * each.stdev) << static_cast<int>(each.model.kind);
  }
}

TEST(TimeSampler, NoTimeIsNegative) {
  EXPECT_EQ(moments_of({Kind::kNormal, 0.1, 1}).min, 0);
  EXPECT_GE(moments_of({Kind::kGamma, 0, 1}).min, 0);
}

}  // namespace
}  // namespace millrace::bench
