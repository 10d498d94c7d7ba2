// Clock: how times are stored: as ticks of a counter, with what is needed to convert them into
// nanoseconds and the time of day.
//
// Reading the CPU's counter takes 7-10 ns, clock_gettime 20-30, and a traced program pays it twice
// per call. So ticks are recorded unconverted; readers convert them.
#pragma once

#include <time.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <cstdint>
#include <type_traits>

#include "wire/wire.h"

namespace millrace::wire {

enum class CounterSource : uint32_t {
  kMonotonicClock = 0,  // CLOCK_MONOTONIC in nanoseconds: always available and correct, but slower
  kTsc = 1,             // x86_64 time-stamp counter
  kCntvct = 2,          // aarch64 virtual count
};

// One instant on three clocks. Two samples far apart give the counter's rate; monotonic and wall
// times of several hosts align their traces.
struct ClockSample {
  uint64_t counter_ticks;
  uint64_t monotonic_ns;
  int64_t wall_ns;          // since 1970-01-01 UTC
  uint64_t uncertainty_ns;  // the three clocks were read within this time
};
static_assert(sizeof(ClockSample) == 32);
static_assert(std::is_trivially_copyable_v<ClockSample>);

// nanoseconds = ticks * multiplier / 2^48, in 128 bits. The rate has 14 digits, so a year of ticks
// loses less than a microsecond. Counters down to 1 MHz fit.
inline constexpr unsigned kScaleShift = 48;
struct CounterScale {
  CounterSource source;
  uint32_t reserved;  // zero
  uint64_t multiplier;
};
static_assert(sizeof(CounterScale) == 16);
static_assert(std::is_trivially_copyable_v<CounterScale>);

inline uint64_t monotonic_clock_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

inline uint64_t read_cpu_counter() {
#if defined(__x86_64__)
  // Neither rdtscp nor a fence: out-of-order execution blurs a time by some ten nanoseconds, and a
  // fence would cost as much on every event.
  return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
  uint64_t ticks;
  asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#else
  return monotonic_clock_ns();
#endif
}

// Whether the CPU guarantees a constant counter rate, independent of frequency and sleep states.
inline bool cpu_counter_is_invariant() {
#if defined(__x86_64__)
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid(0x80000007, &eax, &ebx, &ecx, &edx) != 0 && (edx & (1u << 8)) != 0;
#elif defined(__aarch64__)
  return true;
#else
  return false;
#endif
}

inline uint64_t read_ticks(CounterSource source) {
  return source == CounterSource::kMonotonicClock ? monotonic_clock_ns() : read_cpu_counter();
}

inline uint64_t ticks_to_ns(CounterScale scale, uint64_t ticks) {
  __extension__ using uint128 = unsigned __int128;
  return static_cast<uint64_t>((static_cast<uint128>(ticks) * scale.multiplier) >> kScaleShift);
}

}  // namespace millrace::wire
