#include "base/system/clock.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

using namespace std::chrono_literals;

TEST(Clock, MonotonicTimeNeverGoesBackwards) {
  const Clock& clock = system_clock();
  auto last = clock.monotonic();
  for (int i = 0; i < 1000; ++i) {
    const auto now = clock.monotonic();
    EXPECT_GE(now, last);
    last = now;
  }
}

TEST(Clock, WallTimeIsTheTimeOfDay) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  EXPECT_LT(std::chrono::abs(wall_now() - now), 60s);
}

TEST(Clock, ProcessCpuTimeGrowsWithWork) {
  const auto before = process_cpu_time();
  volatile unsigned sum = 0;
  for (unsigned i = 0; i < 5'000'000; ++i) sum = sum + i;
  EXPECT_GT(process_cpu_time(), before);
}

TEST(FakeClock, MovesOnlyWhenAdvanced) {
  FakeClock clock;
  const auto start = clock.monotonic();
  const auto start_wall = clock.wall();
  EXPECT_EQ(clock.monotonic(), start);
  clock.advance(250us);
  EXPECT_EQ(clock.monotonic() - start, 250us);
  EXPECT_EQ(clock.wall() - start_wall, 250us);
}

}  // namespace
}  // namespace millrace
