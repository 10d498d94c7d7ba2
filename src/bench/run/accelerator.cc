#include "bench/run/accelerator.h"

#include <sys/prctl.h>
#include <time.h>

#include <algorithm>

#include "base/system/clock.h"

namespace millrace::bench {
namespace {

using std::chrono::nanoseconds;

constexpr nanoseconds kBusyEnd = std::chrono::microseconds(60);

void sleep_until(nanoseconds deadline) {
  const timespec until = {.tv_sec = deadline.count() / 1'000'000'000,
                          .tv_nsec = deadline.count() % 1'000'000'000};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) != 0) {
  }
}

}  // namespace

void wait_until(nanoseconds begin, nanoseconds duration, ComputeMode mode) {
  const nanoseconds deadline = begin + duration;
  if (mode == ComputeMode::kSleep && monotonic_now() + kBusyEnd < deadline) {
    sleep_until(deadline - kBusyEnd);
  }
  while (monotonic_now() < deadline) {
  }
}

void ComputePace::begin_pass() { step_ = late_ns_ = 0; }

uint64_t ComputePace::begin_step(uint64_t nominal_ns) {
  if (step_++ == excluded_steps_) late_ns_ = 0;
  duration_ns_ = nominal_ns - std::min(late_ns_, nominal_ns);
  return duration_ns_;
}

void ComputePace::end_step(uint64_t took_ns) {
  late_ns_ = took_ns - std::min(duration_ns_, took_ns);
}

void ask_for_precise_sleeps() { prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL); }

}  // namespace millrace::bench
