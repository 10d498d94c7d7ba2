// The YAML of a workload: what parse_workload() reads back.
#pragma once

#include <string>

#include "bench/workload/workload.h"

namespace millrace::bench {

// Opens with the description as a comment, and has every key whose value is not the default. The
// name is not part of it: it is that of the file.
std::string to_yaml(const Workload& workload);

}  // namespace millrace::bench
