#include "base/system/counter.h"

#include <time.h>

#include <cassert>
#include <cmath>
#include <limits>
#include <thread>

#include "base/io/file.h"
#include "base/system/clock.h"

namespace millrace {
namespace {

using wire::ClockSample;
using wire::CounterScale;
using wire::CounterSource;

#if defined(__x86_64__)
CounterChoice choose_on_x86() {
  if (!wire::cpu_counter_is_invariant()) {
    return {CounterSource::kMonotonicClock, "the CPU does not promise an invariant TSC"};
  }
  // The kernel watches the TSC and removes it from this list if cores or sockets disagree.
  const auto clocks =
      read_file("/sys/devices/system/clocksource/clocksource0/available_clocksource", 4096);
  if (clocks.ok() && clocks->find("tsc") == std::string::npos) {
    return {CounterSource::kMonotonicClock, "the kernel has found the TSC to be unstable"};
  }
  return {CounterSource::kTsc, "the TSC is invariant and the kernel trusts it"};
}
#endif

}  // namespace

CounterChoice choose_counter() {
#if defined(__x86_64__)
  return choose_on_x86();
#elif defined(__aarch64__)
  return {CounterSource::kCntvct, "the architecture promises one constant rate"};
#else
  return {CounterSource::kMonotonicClock, "the counter of this architecture is unknown"};
#endif
}

std::string_view counter_source_name(CounterSource source) {
  switch (source) {
    case CounterSource::kMonotonicClock:
      return "CLOCK_MONOTONIC";
    case CounterSource::kTsc:
      return "TSC";
    case CounterSource::kCntvct:
      return "CNTVCT_EL0";
  }
  return "unknown";
}

ClockSample sample_clocks(CounterSource source) {
  ClockSample best{};
  best.uncertainty_ns = std::numeric_limits<uint64_t>::max();
  for (int attempt = 0; attempt < 16; ++attempt) {
    const uint64_t before_ns = wire::monotonic_clock_ns();
    const uint64_t ticks = wire::read_ticks(source);
    const auto wall = wall_now();
    const uint64_t after_ns = wire::monotonic_clock_ns();
    if (after_ns - before_ns >= best.uncertainty_ns) continue;
    best = {.counter_ticks = ticks,
            .monotonic_ns = before_ns + (after_ns - before_ns) / 2,
            .wall_ns = wall.count(),
            .uncertainty_ns = after_ns - before_ns};
  }
  // The monotonic clock as a counter is its own reference. Both values must come from one reading.
  if (source == CounterSource::kMonotonicClock) best.counter_ticks = best.monotonic_ns;
  return best;
}

CounterScale scale_between(CounterSource source, const ClockSample& first,
                           const ClockSample& last) {
  assert(last.counter_ticks > first.counter_ticks && last.monotonic_ns > first.monotonic_ns);
  const auto elapsed_ns = static_cast<long double>(last.monotonic_ns - first.monotonic_ns);
  const auto elapsed_ticks = static_cast<long double>(last.counter_ticks - first.counter_ticks);
  const long double ns_per_tick = elapsed_ns / elapsed_ticks;
  const long double scaled =
      ns_per_tick * static_cast<long double>(uint64_t{1} << wire::kScaleShift);
  return {source, 0, static_cast<uint64_t>(std::llround(scaled))};
}

CounterCalibration calibrate_counter(CounterSource source, std::chrono::nanoseconds window) {
  const ClockSample first = sample_clocks(source);
  std::this_thread::sleep_for(window);
  ClockSample last = sample_clocks(source);
  while (last.counter_ticks <= first.counter_ticks || last.monotonic_ns <= first.monotonic_ns) {
    last = sample_clocks(source);  // the window is zero and the counter is coarse
  }
  const auto elapsed_ns = static_cast<double>(last.monotonic_ns - first.monotonic_ns);
  const auto blur_ns = static_cast<double>(first.uncertainty_ns + last.uncertainty_ns) / 2;
  const auto ticks = static_cast<double>(last.counter_ticks - first.counter_ticks);
  return {
      .scale = scale_between(source, first, last),
      .frequency_hz = ticks / elapsed_ns * 1e9,
      .uncertainty_ppm = source == CounterSource::kMonotonicClock ? 0 : blur_ns / elapsed_ns * 1e6};
}

}  // namespace millrace
