#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "wire/clock.h"
#include "wire/probe_block.h"

namespace millrace::wire {
namespace {

TEST(Clock, MonotonicClockSourceReadsTheMonotonicClock) {
  const uint64_t before_ns = monotonic_clock_ns();
  const uint64_t ticks = read_ticks(CounterSource::kMonotonicClock);
  EXPECT_LE(before_ns, ticks);
  EXPECT_LE(ticks, monotonic_clock_ns());
}

TEST(Clock, CpuCounterAdvances) {
  const uint64_t first = read_cpu_counter();
  const uint64_t until_ns = monotonic_clock_ns() + 1'000'000;
  while (monotonic_clock_ns() < until_ns) {
  }
  EXPECT_GT(read_cpu_counter(), first);
}

TEST(Clock, AScaleOfOneNanosecondPerTickIsTheIdentity) {
  const CounterScale identity{CounterSource::kMonotonicClock, 0, uint64_t{1} << kScaleShift};
  EXPECT_EQ(ticks_to_ns(identity, 0), 0u);
  EXPECT_EQ(ticks_to_ns(identity, 123'456'789'012'345u), 123'456'789'012'345u);
}

TEST(Clock, ScaleDoesNotOverflowAfterYears) {
  const CounterScale half_ns_per_tick{CounterSource::kTsc, 0, uint64_t{1} << (kScaleShift - 1)};
  constexpr uint64_t kTenYearsNs = 315'360'000ull * 1'000'000'000ull;
  EXPECT_EQ(ticks_to_ns(half_ns_per_tick, 2 * kTenYearsNs), kTenYearsNs);
}

TEST(ProbeBlock, MagicReadsAsTextOnDisk) {
  char bytes[8];
  std::memcpy(bytes, &kProbeMagic, sizeof(bytes));
  EXPECT_EQ(std::string(bytes + 1, 7), "RMPROBE");
}

}  // namespace
}  // namespace millrace::wire
