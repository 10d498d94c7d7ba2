// remove_dataset: deletes the dataset of a workload after its run, for dataset.keep_files=false.
//
// Only files that generate() has written are deleted: the folder must have a manifest of this very
// dataset. A file goes if it has a name and the length of the dataset, and was not modified after
// the manifest was written. Whatever else is in the folder stays, and so do the folders that are
// not empty then.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/workload/workload.h"

namespace millrace::bench {

// Fails if the dataset is not one that may be deleted. To be asked before a long run.
Status check_removable(const Workload& workload);

struct RemovedDataset {
  uint64_t file_count = 0;
  std::vector<std::string> changed;  // paths of files that stay because somebody changed them
};

// REQUIRES: no other rank uses the dataset any more
Result<RemovedDataset> remove_dataset(const Workload& workload);

}  // namespace millrace::bench
