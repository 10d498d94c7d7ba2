// Model check: runs a modelled workload under the tracer and profiles it.
#pragma once

#include <filesystem>
#include <string>

#include "analyze/profile/profile.h"
#include "base/result.h"

namespace millrace::cli {

struct ModelRun {
  std::string yaml;  // the workload
  uint64_t ranks = 1;
  std::string scale;             // of `bench --scale`; empty: 1
  std::filesystem::path parent;  // a folder in here gets the dataset and is removed at the end
  uint64_t wall_ns = 0;          // of the job, for the deadline
};

// Generates the dataset, which is not part of the trace, and runs `bench` with this program. Fails
// with the last line of what `bench` printed.
Result<analyze::Profile> profile_of_model(const ModelRun& run);

}  // namespace millrace::cli
