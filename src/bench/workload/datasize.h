// Datasize: how large MLPerf Storage requires a dataset to be.
//
// At least 5 times the memory of all hosts, so that no page cache can hold it, and at least 500
// steps in an epoch on every accelerator. Both divisions round down, as those of MLPerf Storage do.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "bench/workload/workload.h"

namespace millrace::bench {

struct DataSizeQuestion {
  uint64_t accelerator_count = 1;
  uint64_t host_count = 1;
  uint64_t host_memory_bytes = 0;  // MLPerf counts in GiB
};

struct DataSize {
  uint64_t file_count = 0;  // for dataset.num_files_train
  uint64_t file_count_by_memory = 0;
  uint64_t file_count_by_steps = 0;
  uint64_t sample_count = 0;
  uint64_t size_bytes = 0;

  bool is_by_memory() const { return file_count_by_memory > file_count_by_steps; }
};

// Fails if a number is 0 or the dataset cannot be counted.
Result<DataSize> required_data_size(const Workload& workload, const DataSizeQuestion& question);

}  // namespace millrace::bench
