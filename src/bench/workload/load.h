// Load: a Workload from its file and the overrides of the command line, and back.
//
// Files of DLIO and MLPerf Storage load unchanged, as do overrides in Hydra's notation (compose.h,
// override.h). Unknown, misspelt and contradictory keys are errors that name the file and the line;
// what is ignored becomes a warning in the Workload.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "bench/workload/workload.h"

namespace millrace::bench {

struct LoadOptions {
  std::string workload;                // a name, or the path of a file
  std::vector<std::string> overrides;  // "train.epochs=1", "++workload.train.epochs=1"
  std::filesystem::path config_dir;    // of Hydra: workloads are in its folder `workload`
  double scale = 1;                    // scale.h
};

Result<Workload> load_workload(const LoadOptions& options);

// From the text of a file. `file` is for messages; .json is JSON, anything else YAML.
Result<Workload> parse_workload(std::string_view text, const std::string& file,
                                std::span<const std::string> overrides = {});

// What parse_workload() reads back. Opens with the description as a comment, and has every key
// whose value is not the default. The name is not part of it: it is that of the file.
std::string to_yaml(const Workload& workload);

}  // namespace millrace::bench
