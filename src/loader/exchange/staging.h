// staging: copies the samples that a rank is to hold from the dataset into its storage.
//
// For the first epoch of a job, and wherever a storage does not hold what an epoch needs: after a
// disk was lost, or where a job goes on at another epoch than the storage's. Only what is missing
// is read. What was copied by a staging that was interrupted is not copied again.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"
#include "comm/comm.h"
#include "data/sample.h"
#include "data/source.h"
#include "loader/exchange/local_storage.h"

namespace millrace::loader {

struct StagingOptions {
  // Reads wait for a shared file system more than for a core.
  uint32_t thread_count = 8;
  bool skips_unreadable = false;  // a sample that cannot be read becomes one without bytes
  bool shows_progress = false;    // on standard error, where that is a terminal
  // Asked some times a second, by the thread that called; true ends the staging with kCancelled,
  // once the reads that are under way have returned.
  std::function<bool()> is_interrupted;
};

// Of all stagings so far.
struct StagingStats {
  uint64_t samples = 0;  // copied from the dataset
  uint64_t bytes = 0;
  uint64_t kept = 0;  // that were there already
  uint64_t unreadable = 0;
  std::string first_unreadable;  // the error of the first one
  std::chrono::nanoseconds time{};
};

// Brings the storage to hold, and to have prepared, what the rank holds in `epoch`.
Status stage_epoch(LocalStorage& storage, const data::SampleSource& dataset, data::Epoch epoch,
                   const StagingOptions& options, StagingStats& stats);

// Likewise on all ranks, and commits it. Collective.
Status stage_together(LocalStorage& storage, const data::SampleSource& dataset, data::Epoch epoch,
                      comm::Comm& comm, const StagingOptions& options, StagingStats& stats);

// Likewise, of epoch 0.
Status stage_shard(LocalStorage& storage, const data::SampleSource& dataset, comm::Comm& comm);

}  // namespace millrace::loader
