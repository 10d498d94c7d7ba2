// Trial: what a packed sample of the dataset gains, measured by `advise --try`.
//
// The calls that the job made on a sample of its files were made again, on the files themselves and
// on a store with the same files. This is what they took, and what it means for the job.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "advise/advise.h"
#include "base/system/terminal.h"
#include "base/text/json_writer.h"

namespace millrace::advise {

// The time in the calls, summed over threads.
struct TriedTimes {
  uint64_t cold_ns = 0;  // 0: there was no cold run
  uint64_t hot_ns = 0;
};

struct Trial {
  std::string directory;       // that contains all files
  uint64_t file_count = 0;     // in the sample
  uint64_t dataset_count = 0;  // that the job read, and that are still there
  uint64_t size_bytes = 0;     // of the sample
  uint64_t call_count = 0;
  uint64_t recorded_ns = 0;  // the same calls in the trace
  TriedTimes files;
  TriedTimes store;                // cold: packed, and not yet on the node
  std::vector<std::string> notes;  // what the figures do not say
  Gain gain;                       // measured_gain()
};

// Whether the job's own calls were more like the cold run on the files than like the hot one.
bool was_cold(const Trial& trial);

// What the store saves of the job's wall time, if all its calls on data become faster as those on
// the sample did: from cold or hot files, as in the job, to a store that has the files on the node
// (cold if the job has one epoch).
Gain measured_gain(const analyze::Profile& profile, const Trial& trial);

// Puts the measured gain beside the estimate of each finding that `millrace store` cures. Returns
// how many there are.
size_t add_trial(const Trial& trial, std::vector<Finding>& findings);

std::string trial_text(const Trial& trial, const Terminal& terminal);

// The value of the field `tried`.
void write_trial(JsonWriter& json, const Trial& trial);

}  // namespace millrace::advise
