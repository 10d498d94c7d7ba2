// real_loader: runs the loader of PyTorch itself over the dataset of a workload.
#pragma once

#include "base/result.h"
#include "bench/workload/workload.h"
#include "cli/output.h"

namespace millrace::cli {

// Prints the figures as a table, or as JSON. Needs Python with PyTorch; the variable
// MILLRACE_PYTHON names another interpreter than python3.
Result<int> run_real_loader(const bench::Workload& workload, bool as_json, Output& output);

}  // namespace millrace::cli
