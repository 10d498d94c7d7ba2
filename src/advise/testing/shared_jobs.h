// SharedJobs: sketches of jobs that the tests of several rules share.
#pragma once

#include <cstdint>
#include <vector>

#include "advise/testing/workloads.h"
#include "analyze/profile/profile.h"

namespace millrace::advise {

// One epoch over files that four threads read in pieces; 40 % of it overlaps with compute.
analyze::Profile epoch_in_pieces(uint64_t piece, nanoseconds takes, unsigned readers = 4);

// Two epochs over a dataset in a new order; the second reads a MiB in `takes`.
analyze::Profile two_epochs(nanoseconds takes, uint64_t epochs = 2, uint64_t times = 1);

// Four ranks; each reads `files` of 100 files from its `first` on, in a new order every epoch.
struct Part {
  uint64_t first = 0;
  uint64_t files = 0;
};

analyze::Profile ranks_read(const std::vector<Part>& parts, uint64_t epochs = 1,
                            nanoseconds takes = 20ms);

struct Saving {
  uint32_t ranks = 4;
  uint64_t bytes = kGiB;
  uint64_t piece = 16 * kMiB;
  nanoseconds takes = 4s;  // in total, by rank 0; the others wait
};

// Two epochs of ten seconds, each followed by a checkpoint.
analyze::Profile training_with_checkpoints(const Saving& saving);

}  // namespace millrace::advise
