// generate: writes the dataset of a workload, on all threads of all ranks, and removes it.
//
// Each file is written in `{data_folder}/.millrace-partial-RUN` and renamed when it is complete, so
// that a killed generation leaves no half file under a name of the dataset. Run again, it writes
// only what is missing. A file that exists is never replaced: if it has another length, or changed
// after the dataset was complete, that is an error. Before the first byte it checks that the folder
// has the space. Memory does not grow with the length of a file if the format can be streamed, and
// not with the number of files (file_job.h, layout.h).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/workload/workload.h"
#include "comm/comm.h"

namespace millrace::bench {

struct GenerateOptions {
  size_t thread_count = 0;  // of each rank; 0: as many as it may use CPUs
  bool fsync = false;       // each file is on the device before it gets its name
  // What this rank has written so far. Called from its threads, by one at a time. May be empty.
  std::function<void(uint64_t files, uint64_t bytes)> on_progress;
};

// The work of all ranks together.
struct GenerateReport {
  uint64_t files_written = 0;
  uint64_t files_kept = 0;     // were complete already
  uint64_t bytes_written = 0;  // what was given to the file system
  uint64_t dataset_bytes = 0;  // the length of all files that hold samples
  double seconds = 0;
  std::vector<std::string> notes;  // on rank 0: what could not be removed of a killed generation
};

// Collective: all ranks call it, with the same workload. File i is written by rank i % ranks.
Result<GenerateReport> generate(const Workload& workload, comm::Comm& comm,
                                const GenerateOptions& options);

// ---- after a run, for dataset.keep_files=false ----

// Only files that generate() has written are deleted: the folder must have a manifest of this very
// dataset. A file goes if it has a name and the length of the dataset, and was not modified after
// the manifest was written. Whatever else is in the folder stays, and so do the folders that are
// not empty then.

// Fails if the dataset is not one that may be deleted. To be asked before a long run.
Status check_removable(const Workload& workload);

struct RemovedDataset {
  uint64_t file_count = 0;
  std::vector<std::string> changed;  // paths of files that stay because somebody changed them
};

// REQUIRES: no other rank uses the dataset any more
Result<RemovedDataset> remove_dataset(const Workload& workload);

}  // namespace millrace::bench
