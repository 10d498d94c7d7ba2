// TimeSampler: draws the times of a TimeModel, the same in each run with the same seed.
//
// Draws are in seconds and never negative: a normal distribution is cut at 0, which for DLIO's
// workloads changes nothing. (DLIO mirrors such draws, which makes a slow step out of a fast one.)
// Not thread-safe.
#pragma once

#include <cstdint>

#include "base/numbers/counter_random.h"
#include "bench/workload/workload.h"

namespace millrace::bench {

class TimeSampler {
 public:
  // Streams of different seeds are independent.
  TimeSampler(const TimeModel& model, uint64_t seed) : model_(model), random_(seed, kStream) {}

  double next();

 private:
  static constexpr uint64_t kStream = 0x74696d6573;  // "times": no other user of the seed

  double uniform_above_0();  // in (0, 1]
  double standard_normal();
  double standard_gamma(double shape);
  double poisson(double mean);

  TimeModel model_;
  CounterRandom random_;
};

}  // namespace millrace::bench
