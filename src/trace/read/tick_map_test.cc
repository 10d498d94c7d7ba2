#include "trace/read/tick_map.h"

#include <gtest/gtest.h>

namespace millrace::trace {
namespace {

using wire::ClockSample;
using wire::CounterSource;

constexpr ClockSample kFirst{1000, 5'000'000'000, 0, 50};

TEST(TickMap, TicksAreLinearBetweenSamples) {
  TickMap map(CounterSource::kTsc, kFirst);
  ASSERT_TRUE(map.add({1000 + 2'000'000'000, 6'000'000'000, 0, 50}));
  EXPECT_EQ(map.since_first_ns(1000), 0u);
  EXPECT_EQ(map.since_first_ns(1000 + 1'000'000'000), 500'000'000u);
  EXPECT_EQ(map.since_first_ns(1000 + 4'000'000'000), 2'000'000'000u);
}

TEST(TickMap, ALaterSampleChangesNothingBeforeIt) {
  TickMap map(CounterSource::kTsc, kFirst);
  map.add({1000 + 2'000'000'000, 6'000'000'000, 0, 50});
  const uint64_t before = map.since_first_ns(1000 + 1'234'567'891);
  // In the meantime, the monotonic clock was slowed by 100 ppm.
  map.add({1000 + 4'000'000'000, 6'999'900'000, 0, 50});
  EXPECT_EQ(map.since_first_ns(1000 + 1'234'567'891), before);
  EXPECT_NEAR(static_cast<double>(map.since_first_ns(1000 + 3'000'000'000)), 1'499'950'000, 1);
}

TEST(TickMap, TicksBeforeTheSessionMapToItsBegin) {
  TickMap map(CounterSource::kTsc, kFirst);
  EXPECT_EQ(map.since_first_ns(0), 0u);
}

TEST(TickMap, UselessSamplesAreRefused) {
  TickMap map(CounterSource::kTsc, kFirst);
  EXPECT_FALSE(map.add({}));
  EXPECT_FALSE(map.add(kFirst));
  EXPECT_FALSE(map.add({1000 + 2'000'000, 5'001'000'000, 0, 50}));             // too close
  EXPECT_FALSE(map.add({1000 + 2'000'000'000, 6'000'000'000, 0, 1'000'000}));  // interrupted
  EXPECT_FALSE(map.add({1001, 6'000'000'000, 0, 50}));                         // 1 Hz
  EXPECT_FALSE(map.has_rate());
}

TEST(TickMap, ACalibrationReplacesTheSecondSample) {
  TickMap map(CounterSource::kTsc, kFirst);
  map.set_rate({CounterSource::kTsc, 0, uint64_t{1} << (wire::kScaleShift - 1)});
  EXPECT_TRUE(map.has_rate());
  EXPECT_EQ(map.since_first_ns(1000 + 200), 100u);
}

}  // namespace
}  // namespace millrace::trace
