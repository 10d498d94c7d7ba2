#include <fmt/core.h>

#include <algorithm>
#include <chrono>

#include "base/hash/crc32c.h"
#include "base/system/clock.h"
#include "base/system/counter.h"
#include "base/system/cpus.h"
#include "doctor/checks.h"
#include "wire/clock.h"

namespace millrace::doctor {
namespace {

using wire::CounterSource;

// The minimum of several rounds: what a read costs when nothing disturbs it.
double read_cost_ns(CounterSource source) {
  constexpr int kReads = 10'000;
  double best_ns = 1e9;
  for (int round = 0; round < 10; ++round) {
    uint64_t sum = 0;
    const auto start = monotonic_now();
    for (int i = 0; i < kReads; ++i) sum += wire::read_ticks(source);
    const auto elapsed = monotonic_now() - start;
    asm volatile("" : : "r"(sum));  // keeps the loop
    best_ns = std::min(best_ns, static_cast<double>(elapsed.count()) / kReads);
  }
  return best_ns;
}

Finding counter_finding() {
  const CounterChoice choice = choose_counter();
  const auto calibration = calibrate_counter(choice.source, std::chrono::milliseconds(20));
  const double read_ns = read_cost_ns(choice.source);
  const double clock_ns = read_cost_ns(CounterSource::kMonotonicClock);
  Finding finding;
  finding.name = "cpu counter";
  finding.figures = {{"frequency_hz", calibration.frequency_hz},
                     {"uncertainty_ppm", calibration.uncertainty_ppm},
                     {"read_ns", read_ns},
                     {"clock_gettime_ns", clock_ns}};
  if (choice.source == CounterSource::kMonotonicClock) {
    finding.state = State::kLimited;
    finding.fact =
        fmt::format("not used: {}; clock_gettime takes {:.0f} ns", choice.reason, clock_ns);
    finding.without = "time stamps cost more";
    finding.fix = "boot with clocksource=tsc, if the TSC of this hardware is reliable";
    return finding;
  }
  finding.fact =
      fmt::format("{} at {:.3f} GHz (+-{:.0f} ppm), {:.0f} ns per read; clock_gettime {:.0f} ns",
                  counter_source_name(choice.source), calibration.frequency_hz / 1e9,
                  calibration.uncertainty_ppm, read_ns, clock_ns);
  return finding;
}

Finding crc_finding() {
  Finding finding;
  finding.name = "crc32c";
  finding.fact = fmt::format("computed by {}", crc32c_implementation());
  if (crc32c_implementation() == "tables") {
    finding.state = State::kLimited;
    finding.without = "checksums take several times as much CPU";
    finding.fix = "none: this CPU has no CRC32C instruction";
  }
  return finding;
}

}  // namespace

std::vector<Finding> check_cpu() {
  const auto cores = static_cast<double>(usable_cpu_count());
  Finding cpus{.name = "cpus",
               .fact = fmt::format("{:.0f} usable (affinity mask and cgroup quota)", cores),
               .figures = {{"count", cores}}};
  return {std::move(cpus), counter_finding(), crc_finding()};
}

}  // namespace millrace::doctor
