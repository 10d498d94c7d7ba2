// Checkpointer: writes the checkpoints of a job as its ranks would, and reads them back.
//
// A checkpoint appears under its name only when all ranks have written their files
// (checkpoint/folder.h). If one rank fails, all ranks return its error, and nothing of the
// checkpoint remains. No file that a Checkpointer did not write is replaced or removed. The content
// is a function of the checkpoint's name, so load() verifies every byte, also in a later run.
//
// checkpoint.write_mode says what the training waits for:
//   sync         save() returns when the checkpoint is complete;
//   async        a thread writes it while the training goes on;
//   local_flush  save() writes to local_folder, and a thread copies that to checkpoint_folder.
// A checkpoint in progress ends at the next save(), load(), poll() that finds it written, or
// finish(); that call also returns its errors.
//
// All functions except the const ones are collective: every rank makes the same calls in the same
// order. Not thread-safe, like the Comm, which must outlive it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/checkpoint/file.h"
#include "bench/checkpoint/folder.h"
#include "bench/checkpoint/plan.h"
#include "bench/checkpoint/schedule.h"
#include "bench/workload/workload.h"
#include "comm/comm.h"

namespace millrace::bench {

// What this rank did for one checkpoint.
struct CheckpointResult {
  CheckpointId id;
  bool is_load = false;
  bool is_pending = false;  // still being written: only the id is known
  uint64_t size_bytes = 0;  // of the files
  uint64_t file_count = 0;
  uint64_t fsync_count = 0;
  uint64_t cached_bytes = 0;  // load: of the files, in the page cache before they were read
  // What DLIO would report: this rank's own work, and with rank_sync also that of the others.
  std::chrono::nanoseconds duration{};
};

struct CheckpointerOptions {
  uint32_t ranks_per_node = 0;  // 0: counted by host name if recovery_rank_shift needs it
  std::string run = {};         // part of the names of partial checkpoints; empty: random
  bool only_reads = false;      // changes nothing in the folders; save() is not called
};

class Checkpointer {
 public:
  // Creates the folders, and removes what crashed runs left in them.
  static Result<std::unique_ptr<Checkpointer>> open(const Workload& workload, comm::Comm& comm,
                                                    const CheckpointerOptions& options = {});

  // Abandons a checkpoint in progress.
  virtual ~Checkpointer() = default;

  // Of all checkpoints so far, in order.
  virtual const std::vector<CheckpointResult>& results() const = 0;

  // What stays in the folders because somebody else made it, a sentence each. On the first rank.
  virtual const std::vector<std::string>& notes() const = 0;

  // `step` counts within the epoch, `total_step` from the start of the training.
  virtual Result<CheckpointResult> save(uint64_t epoch, uint64_t step, uint64_t total_step) = 0;
  virtual Result<CheckpointResult> load(uint64_t epoch, uint64_t step, uint64_t total_step) = 0;

  // Completes the checkpoint in progress if all ranks have written it. Call it after steps: if
  // nothing is in progress, it costs nothing.
  virtual Status poll() = 0;

  // Completes the checkpoint in progress.
  virtual Status finish() = 0;
};

// schedule.is_due() for all ranks. Their clocks differ, so the first rank decides if the trigger is
// time. Collective.
Result<bool> is_due_on_all(const CheckpointSchedule& schedule, const TrainingMoment& moment,
                           comm::Comm& comm);

}  // namespace millrace::bench
