// Counter: the cycle counter of the CPU, if it can be trusted, and the length of its ticks.
//
// A counter is trusted if it runs at a constant rate whatever the cores do (x86: the invariant TSC
// bit is set, and the kernel has not found the counters of the cores to disagree; aarch64: always).
// If not, the source is the monotonic clock, whose tick is one nanosecond. It is slower but never
// wrong.
#pragma once

#include <chrono>
#include <string>

#include "wire/clock.h"

namespace millrace {

struct CounterChoice {
  wire::CounterSource source;
  std::string reason;  // why this source was chosen, as a clause: "the TSC is invariant"
};

// Chooses the counter for this machine. Reads CPUID and a file of the kernel; call it once.
CounterChoice choose_counter();

std::string_view counter_source_name(wire::CounterSource source);

struct CounterCalibration {
  wire::CounterScale scale;
  double frequency_hz;
  double uncertainty_ppm;  // of the frequency: mean sampling time / time between samples
};

// Measures the counter against the monotonic clock for at least `window`, and sleeps in between. A
// window of 20 ms gives about 10 ppm. For more precision, compare two samples taken far apart
// (scale_between).
CounterCalibration calibrate_counter(wire::CounterSource source, std::chrono::nanoseconds window);

// Reads all clocks at nearly the same moment: tries several times and keeps the fastest reading.
wire::ClockSample sample_clocks(wire::CounterSource source);

// The scale that maps the ticks between two samples onto the nanoseconds between them.
// REQUIRES: last was taken after first.
wire::CounterScale scale_between(wire::CounterSource source, const wire::ClockSample& first,
                                 const wire::ClockSample& last);

}  // namespace millrace
