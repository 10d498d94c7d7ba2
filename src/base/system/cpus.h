// cpus: how many CPUs this process may use.
#pragma once

#include <cstddef>

namespace millrace {

// Limited by the affinity mask and the cgroup quota. Not the number of CPUs of the machine: in a
// container or a batch job, that many threads would compete for fewer CPUs. At least 1.
size_t usable_cpu_count();

}  // namespace millrace
