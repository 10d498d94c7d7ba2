#include "base/system/counter.h"

#include <gtest/gtest.h>

#include <thread>

namespace millrace {
namespace {

using namespace std::chrono_literals;
using wire::ClockSample;
using wire::CounterSource;

TEST(Counter, ChoosesACounterOfThisArchitectureAndSaysWhy) {
  const CounterChoice choice = choose_counter();
#if defined(__x86_64__)
  EXPECT_NE(choice.source, CounterSource::kCntvct);
#else
  EXPECT_NE(choice.source, CounterSource::kTsc);
#endif
  EXPECT_FALSE(choice.reason.empty());
}

TEST(Counter, FallbackCountsNanosecondsExactly) {
  const CounterCalibration calibration = calibrate_counter(CounterSource::kMonotonicClock, 1ms);
  EXPECT_EQ(calibration.scale.multiplier, uint64_t{1} << wire::kScaleShift);
  EXPECT_EQ(calibration.uncertainty_ppm, 0);
  EXPECT_EQ(wire::ticks_to_ns(calibration.scale, 987'654'321), 987'654'321u);
}

TEST(Counter, TheCalibratedScaleAgreesWithTheMonotonicClock) {
  const CounterSource source = choose_counter().source;
  const auto scale = calibrate_counter(source, 20ms).scale;
  const ClockSample before = sample_clocks(source);
  std::this_thread::sleep_for(20ms);
  const ClockSample later = sample_clocks(source);
  const uint64_t counted_ns = wire::ticks_to_ns(scale, later.counter_ticks - before.counter_ticks);
  // 20 ms at the stated uncertainty, plus the two sampling times. 200 us allow for a busy machine.
  EXPECT_NEAR(static_cast<double>(counted_ns),
              static_cast<double>(later.monotonic_ns - before.monotonic_ns), 200e3);
}

TEST(Counter, ScaleMapsTicksOntoNanoseconds) {
  const ClockSample first{
      .counter_ticks = 1000, .monotonic_ns = 5000, .wall_ns = 0, .uncertainty_ns = 0};
  const ClockSample last{.counter_ticks = 1000 + 2'500'000'000,
                         .monotonic_ns = 5000 + 1'000'000'000,
                         .wall_ns = 0,
                         .uncertainty_ns = 0};
  const auto scale = scale_between(CounterSource::kTsc, first, last);
  constexpr uint64_t kYearTicks = 2'500'000'000ull * 31'557'600;
  constexpr double kYearNs = 31'557'600e9;
  EXPECT_NEAR(static_cast<double>(wire::ticks_to_ns(scale, kYearTicks)), kYearNs, 1000);
}

}  // namespace
}  // namespace millrace
