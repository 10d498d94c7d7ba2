// Check: finds keys of a workload that contradict each other.
//
// Whatever needs the machine or the number of ranks is checked where it is known, by the run.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "bench/workload/workload.h"

namespace millrace::bench {

struct Contradiction {
  std::string_view key;  // the key to change
  std::string message;
  bool is_error = true;  // false: odd, but it can run
};

// In the order of the keys.
std::vector<Contradiction> contradictions(const Workload& workload);

// Fails with the first error of contradictions(): "reader.batch_size: ...".
Status check(const Workload& workload);

// The size of a sample follows from its shape, if it has one. Returns a sentence if the workload
// said something else.
std::string take_length_of_dims(Workload& workload);

// Samples of the dataset. REQUIRES: check() passed, so they can be counted.
uint64_t train_sample_count(const Workload& workload);
uint64_t eval_sample_count(const Workload& workload);

}  // namespace millrace::bench
