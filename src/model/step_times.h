// Step times: how long the training loop works on a batch, besides waiting for it.
//
// That is more than the regions of compute: it also includes what the loop does between them, for
// example waiting for the accelerator, or logging. It lasts from the end of a wait to the begin of
// the next one. Checkpoints are not part of it.
#pragma once

#include <cstdint>
#include <string>

#include "analyze/profile/profile.h"
#include "bench/workload/workload.h"
#include "model/counts.h"

namespace millrace::model {

struct StepTimes {
  double mean_s = 0;
  double stdev_s = 0;
  uint64_t count = 0;       // steps that it is the mean of; 0: no steps are known
  uint64_t left_out = 0;    // steps that took over ten times the median
  bool by_summary = false;  // the profile has no single steps: from its totals
};

StepTimes step_times_of(const analyze::Profile& profile);

// Time of the training loop for a batch of an evaluation, in seconds; 0: unknown. From the time
// between the last step of an epoch and the first of the next.
double eval_step_s(const analyze::Profile& profile, const Counts& counts, const StepTimes& times);

// The distribution with this mean and deviation: constant, normal if no time would be negative,
// otherwise gamma.
bench::TimeModel time_model_of(double mean_s, double stdev_s);

}  // namespace millrace::model
