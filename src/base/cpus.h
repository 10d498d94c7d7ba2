// cpus: how many CPUs this process may use.
#pragma once

#include <cstddef>

namespace millrace {

// By its affinity mask and its cgroup's quota, not the machine's count: in a container or a batch
// job the difference is threads that fight each other. At least 1.
size_t usable_cpu_count();

}  // namespace millrace
