// remove_dataset: deletes the dataset of a workload after its run, for dataset.keep_files=false.
//
// Only files that generate() has written are deleted: the folder must have a manifest of this very
// dataset, and then files go by their names. Whatever else is in the folder stays, and so do the
// folders that are not empty then.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "bench/workload.h"

namespace millrace::bench {

// Fails if the dataset is not one that may be deleted. To be asked before a long run.
Status check_removable(const Workload& workload);

// Returns the number of files. REQUIRES: no other rank uses the dataset any more
Result<uint64_t> remove_dataset(const Workload& workload);

}  // namespace millrace::bench
