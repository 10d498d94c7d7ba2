// results: the figures of a run: per rank and in total, ours and DLIO's.
//
// Two definitions of accelerator utilisation. `au` is ours: the compute time that the workload
// asks for, by the time that its steps took. `au_dlio` is DLIO's: the compute time as it was, by
// the length of the epoch without the excluded steps; a slow machine that computes longer scores
// higher there. DLIO's samples per second are also by that time in training, but by the whole pass
// in an evaluation. If checkpoints divide an epoch, DLIO's figures are the means of its blocks,
// weighted with their steps.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/numbers/quantile_sketch.h"
#include "base/result.h"
#include "bench/run/training.h"
#include "bench/workload/workload.h"
#include "comm/comm.h"

namespace millrace::bench {

// Of one pass on one rank, or on all ranks together.
struct PassFigures {
  Split split = Split::kTrain;
  uint64_t epoch = 0;
  uint64_t steps = 0;
  uint64_t samples = 0;
  uint64_t bytes_read = 0;
  uint64_t reads = 0;
  double seconds = 0;  // without checkpoints; of all ranks: the longest
  double checkpoint_seconds = 0;
  double au = 0;  // 0 to 1; of all ranks: the mean
  double au_dlio = 0;
  double dlio_samples_per_second = 0;  // of all ranks: the sum
  double first_batch_seconds = 0;      // of all ranks: the longest
  double wait_seconds = 0;             // of all ranks: the mean
  double compute_seconds = 0;
  double harness_seconds = 0;  // neither wait nor compute

  double samples_per_second() const {
    return seconds > 0 ? static_cast<double>(samples) / seconds : 0;
  }
  double bytes_per_second() const {
    return seconds > 0 ? static_cast<double>(bytes_read) / seconds : 0;
  }
};

struct CheckpointFigures {
  uint64_t count = 0;
  uint64_t bytes = 0;  // of all ranks and checkpoints
  uint64_t files = 0;
  uint64_t fsyncs = 0;
  uint64_t cached_bytes = 0;    // in the page cache before they were read
  std::vector<double> seconds;  // of each checkpoint: the slowest rank
};

struct RunFigures {
  uint32_t rank_count = 1;
  uint32_t host_count = 1;
  std::vector<PassFigures> passes;                // of all ranks
  std::vector<std::vector<PassFigures>> by_rank;  // the same by rank
  QuantileSketch sample_latency_ns;
  QuantileSketch batch_wait_ns;
  CheckpointFigures saves;
  CheckpointFigures loads;
  uint64_t checked_samples = 0;
  double check_seconds = 0;  // of all threads
  uint64_t bad_samples = 0;
  std::string first_bad_sample;
  double setup_seconds = 0;  // the longest
  double cached_share = 0;   // the mean

  double check_us_per_sample() const {
    return checked_samples > 0 ? check_seconds * 1e6 / static_cast<double>(checked_samples) : 0;
  }
};

// The figures of one pass on one rank.
PassFigures figures_of(const Pass& pass, const Workload& workload);

// Collective. The figures of all ranks, on rank 0; empty on the others.
Result<RunFigures> gather_figures(const RankRun& mine, const Workload& workload, comm::Comm& comm);

// The mean utilisation of the training passes, 0 to 1.
double mean_au(const RunFigures& run);

// Whether it is what metric.au expects. True if nothing was trained.
bool meets_expectation(const RunFigures& run, const Workload& workload);

}  // namespace millrace::bench
