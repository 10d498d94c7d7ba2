#include "base/system/cpus.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>

#include "base/system/cgroup.h"

namespace millrace {
namespace {

// The CPU time, in CPUs, that cgroup v2 (cpu.max) or v1 (cpu.cfs_*) allows; nullopt if unlimited.
std::optional<double> cgroup_cpu_quota() {
  const auto quotas = cgroup_values({"cpu", "cpu.cfs_quota_us", "cpu.max"});
  const auto periods = cgroup_values({"cpu", "cpu.cfs_period_us", "cpu.max"});
  std::optional<double> lowest;
  for (size_t i = 0; i < quotas.size() && quotas.size() == periods.size(); ++i) {
    double quota = 0;
    double period = 0;
    if (quotas[i].is_v2) {  // "max 100000" if unlimited
      if (std::sscanf(quotas[i].text.c_str(), "%lf %lf", &quota, &period) != 2) continue;
    } else {  // -1 if unlimited
      quota = std::atof(quotas[i].text.c_str());
      period = std::atof(periods[i].text.c_str());
    }
    if (quota > 0 && period > 0) lowest = std::min(lowest.value_or(quota / period), quota / period);
  }
  return lowest;
}

}  // namespace

size_t usable_cpu_count() {
  size_t count = std::max(1u, std::thread::hardware_concurrency());
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0) {
    count = static_cast<size_t>(std::max(1, CPU_COUNT(&allowed)));
  }
  if (const auto quota = cgroup_cpu_quota()) {
    count = std::min(count, static_cast<size_t>(std::max(1.0, std::ceil(*quota))));
  }
  return count;
}

}  // namespace millrace
