// Counter: the CPU's own clock, if it can be trusted, and what its ticks are worth.
//
// A counter is trusted when it runs at one rate whatever the cores do (x86: the invariant TSC bit,
// and a kernel that has not found the counters of the cores to disagree; aarch64: always). Where it
// is not, the source is the monotonic clock, whose tick is one nanosecond: slower, never wrong.
#pragma once

#include <chrono>
#include <string>

#include "wire/clock.h"

namespace millrace {

struct CounterChoice {
  wire::CounterSource source;
  std::string reason;  // why this source, as a clause: "the TSC is invariant"
};

// What to use on this machine. Reads CPUID and a file of the kernel; call it once.
CounterChoice choose_counter();

std::string_view counter_source_name(wire::CounterSource source);

struct CounterCalibration {
  wire::CounterScale scale;
  wire::ClockSample anchor;  // an instant from which ticks count
  double frequency_hz;
  double uncertainty_ppm;  // of the frequency: half the reading windows over the time between
};

// Measures the counter against the monotonic clock for at least `window`, asleep in between. 20 ms
// give some 10 ppm; whoever needs better compares two samples taken far apart (scale_between).
CounterCalibration calibrate_counter(wire::CounterSource source, std::chrono::nanoseconds window);

// The same instant on all clocks: of several tries, the one whose readings lay closest together.
wire::ClockSample sample_clocks(wire::CounterSource source);

// The scale that maps the ticks between two samples onto the nanoseconds between them.
// REQUIRES: last was taken after first.
wire::CounterScale scale_between(wire::CounterSource source, const wire::ClockSample& first,
                                 const wire::ClockSample& last);

// When a tick was, on the monotonic clock. Also right for ticks from before the anchor.
uint64_t monotonic_ns_at(const CounterCalibration& calibration, uint64_t ticks);

}  // namespace millrace
