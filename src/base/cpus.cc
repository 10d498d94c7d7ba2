#include "base/cpus.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>

#include "base/file.h"

namespace millrace {
namespace {

// The CPU time, in CPUs, that cgroup v2 (cpu.max) or v1 (cpu.cfs_*) allows; nullopt if unlimited.
std::optional<double> cgroup_cpu_quota() {
  if (const auto v2 = read_file("/sys/fs/cgroup/cpu.max", 256); v2.ok()) {
    double quota = 0;
    double period = 0;
    if (std::sscanf(v2->c_str(), "%lf %lf", &quota, &period) == 2 && period > 0) {
      return quota / period;
    }
    return std::nullopt;
  }
  const auto quota = read_file("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", 64);
  const auto period = read_file("/sys/fs/cgroup/cpu/cpu.cfs_period_us", 64);
  if (!quota.ok() || !period.ok()) return std::nullopt;
  const double quota_us = std::atof(quota->c_str());
  const double period_us = std::atof(period->c_str());
  if (quota_us <= 0 || period_us <= 0) return std::nullopt;
  return quota_us / period_us;
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
