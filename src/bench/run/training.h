// training: runs the epochs of a workload on one rank: wait for a batch, compute, repeat.
//
// Times are measured where a training program would measure them. What is neither wait nor compute
// nor a checkpoint is the cost of the benchmark itself, and is reported. Ranks meet before every
// epoch and at its end, not at every step.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/numbers/quantile_sketch.h"
#include "base/result.h"
#include "bench/checkpoint/checkpoint.h"
#include "bench/generate/layout.h"
#include "bench/run/accelerator.h"
#include "bench/run/run_log.h"
#include "bench/workload/workload.h"
#include "comm/comm.h"

namespace millrace::bench {

struct Step {
  uint64_t wait_ns = 0;
  uint64_t compute_ns = 0;  // as it was
  uint64_t nominal_ns = 0;  // as the workload says
  uint64_t whole_ns = 0;    // from the end of the step before, without checkpoints
};

// Steps between two checkpoints, which DLIO looks at one by one.
struct Block {
  uint64_t steps = 0;
  uint64_t duration_ns = 0;  // from the end of the checkpoint before, or the start of the epoch
};

// One pass over the training or evaluation files.
struct Pass {
  Split split = Split::kTrain;
  uint64_t epoch = 0;  // counted from 1, as DLIO does
  std::chrono::nanoseconds wall_begin{};
  std::chrono::nanoseconds wall_end{};
  uint64_t duration_ns = 0;  // from the start of the epoch, without checkpoints
  uint64_t checkpoint_ns = 0;
  uint64_t samples = 0;
  uint64_t bytes_read = 0;
  uint64_t reads = 0;
  std::vector<Step> steps;
  std::vector<Block> blocks;  // of all steps; empty if there are none

  // Adds the steps since the last block. `elapsed_ns`: of the pass, without checkpoints.
  void end_block(uint64_t elapsed_ns);
};

struct RankRun {
  std::vector<Pass> passes;
  std::vector<CheckpointResult> saves;
  std::vector<CheckpointResult> loads;
  QuantileSketch sample_latency_ns;
  uint64_t checked_samples = 0;
  uint64_t check_ns = 0;  // what checking them took, on all threads
  uint64_t bad_samples = 0;
  std::string first_bad_sample;
  std::vector<std::string> notes;    // of the Checkpointer
  std::chrono::nanoseconds setup{};  // from the start until the first epoch
  double cached_share = 0;           // of the training files, before the first step
};

struct TrainingOptions {
  ComputeMode compute = ComputeMode::kSleep;
  // Called after every step, for progress: the samples of the step.
  std::function<void(uint64_t)> on_step;
  // Called when the files were looked at for their index and before their samples are read; may be
  // empty. `--cache drop` has to come after the first and before the second. On every rank, which
  // need not wait for the others.
  std::function<Status()> prepare_cache = {};
  const RunLog* log = nullptr;  // gets when epochs and checkpoints begin and end; null: nobody
  // When the process began, for `setup`.
  std::chrono::nanoseconds started{};
};

// Collective over the ranks of `comm`.
Result<RankRun> run_training(const Workload& workload, comm::Comm& comm,
                             const TrainingOptions& options);

}  // namespace millrace::bench
