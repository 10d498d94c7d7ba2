// Counts: how many epochs, steps, samples and evaluations a job made.
#pragma once

#include <cstdint>

#include "analyze/profile/profile.h"

namespace millrace::model {

// An estimate of 0 means that the trace does not show it.
struct Counts {
  uint64_t ranks = 1;
  uint64_t epochs = 1;             // passes of the training over the dataset
  bool epochs_marked = false;      // by regions; otherwise counted by the bytes that were read
  uint64_t steps = 0;              // of the rank with the most
  uint64_t steps_all = 0;          // of all ranks
  uint64_t steps_per_epoch = 0;    // of a rank, in its longest epoch
  uint64_t samples_per_epoch = 0;  // of all ranks, in a whole epoch
  uint64_t batch_size = 0;         // samples of a rank in a step
  uint64_t eval_passes = 0;
  uint64_t eval_batches = 0;  // of a rank in a pass
  uint64_t eval_samples = 0;  // of all ranks in a pass
  uint64_t eval_batch_size = 0;
};

Counts counts_of(const analyze::Profile& profile);

// The batch size of which `steps` make `samples`, the last of them perhaps smaller. If several are
// possible, the one that people would choose. 0 if there are no steps.
uint64_t batch_size_of(uint64_t samples, uint64_t steps);

}  // namespace millrace::model
