// staging: copies a rank's samples from the dataset into its storage.
//
// For the first epoch of a job, and whenever a storage lacks what an epoch needs: after a disk was
// lost, or if a job continues at another epoch than the storage's. It reads only what is missing,
// and does not copy again what an interrupted staging has copied.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"
#include "comm/comm.h"
#include "data/sample.h"
#include "data/source.h"
#include "loader/exchange/shard_storage.h"

namespace millrace::loader::exchange {

struct StagingOptions {
  // Several, because reads wait for a shared file system rather than for a CPU.
  uint32_t thread_count = 8;
  bool skips_unreadable = false;  // store an unreadable sample without bytes
  bool shows_progress = false;    // on standard error, if that is a terminal
  // Polled several times per second on the calling thread. True ends the staging with kCancelled,
  // once the reads in progress have returned.
  std::function<bool()> is_interrupted;
};

// Sums over all stagings so far.
struct StagingStats {
  uint64_t samples = 0;  // copied from the dataset
  uint64_t bytes = 0;
  uint64_t kept = 0;  // were there already
  uint64_t unreadable = 0;
  std::string first_unreadable;  // the error of the first one
  std::chrono::nanoseconds time{};
};

// Stages and prepares the rank's samples of `epoch`.
Status stage_epoch(ShardStorage& storage, const data::SampleSource& dataset, data::Epoch epoch,
                   const StagingOptions& options, StagingStats& stats);

// Does so on all ranks, and commits the epoch. Collective.
Status stage_together(ShardStorage& storage, const data::SampleSource& dataset, data::Epoch epoch,
                      comm::Comm& comm, const StagingOptions& options, StagingStats& stats);

// stage_together() for epoch 0.
Status stage_shard(ShardStorage& storage, const data::SampleSource& dataset, comm::Comm& comm);

}  // namespace millrace::loader::exchange
