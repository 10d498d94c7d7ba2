// The floor of an emulated accelerator: a loop that only waits for the compute time of each step.
// What it misses of 100 % is the machine's: sleeps that end late. Prints the utilisation:
// bench_step_floor SECONDS STEPS.
#include <fmt/core.h>

#include <cstdlib>

#include "base/system/clock.h"
#include "bench/run/accelerator.h"

int main(int argc, char** argv) {
  if (argc < 3) {
    fmt::print(stderr, "usage: bench_step_floor SECONDS STEPS\n");
    return 2;
  }
  const auto step = std::chrono::nanoseconds(static_cast<int64_t>(std::atof(argv[1]) * 1e9));
  const int steps = std::atoi(argv[2]);
  millrace::bench::ask_for_precise_sleeps();
  const auto begin = millrace::monotonic_now();
  for (int i = 0; i < steps; ++i) {
    millrace::bench::wait_until(millrace::monotonic_now(), step,
                                millrace::bench::ComputeMode::kSleep);
  }
  const auto taken = millrace::monotonic_now() - begin;
  fmt::print("{:.4f}\n",
             static_cast<double>((step * steps).count()) / static_cast<double>(taken.count()));
  return 0;
}
