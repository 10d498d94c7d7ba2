#include <fmt/core.h>
#include <sys/statvfs.h>

#include "base/system/memory.h"
#include "base/text/units.h"
#include "doctor/checks.h"

namespace millrace::doctor {
namespace {

Finding memory_finding() {
  Finding finding;
  finding.name = "memory";
  const auto total = memory_total_bytes();
  const auto available = memory_available_bytes();
  if (!total || !available) {
    finding.state = State::kFailed;
    finding.fact = "/proc/meminfo cannot be read";
    finding.without = "the size of the page cache cannot be judged";
    finding.fix = "mount /proc in this container";
    return finding;
  }
  finding.fact = fmt::format("{} available of {}", format_bytes(*available), format_bytes(*total));
  finding.figures = {{"total_bytes", static_cast<double>(*total)},
                     {"available_bytes", static_cast<double>(*available)}};
  if (const auto limit = memory_limit_bytes(); limit && *limit < *total) {
    finding.state = State::kLimited;
    finding.fact += fmt::format("; the cgroup allows {}", format_bytes(*limit));
    finding.without =
        "the page cache counts against this limit; larger datasets are read again in every epoch";
    finding.fix = "request more memory from the batch system or container";
    finding.figures.emplace_back("cgroup_limit_bytes", static_cast<double>(*limit));
  }
  return finding;
}

Finding shared_memory_finding() {
  constexpr uint64_t kWanted = uint64_t{256} << 20;
  Finding finding;
  finding.name = "shared memory";
  struct statvfs info{};
  if (statvfs("/dev/shm", &info) != 0) {
    finding.state = State::kMissing;
    finding.fact = "/dev/shm does not exist";
    finding.without = "MPI ranks on one host and PyTorch workers cannot share memory";
    finding.fix = "mount -t tmpfs tmpfs /dev/shm";
    return finding;
  }
  const uint64_t free_bytes = uint64_t{info.f_bavail} * info.f_frsize;
  finding.fact = fmt::format("{} free in /dev/shm", format_bytes(free_bytes));
  finding.figures = {{"free_bytes", static_cast<double>(free_bytes)}};
  if (free_bytes < kWanted) {
    finding.state = State::kLimited;
    finding.without = "MPI ranks and PyTorch workers run out of shared memory";
    finding.fix = "mount -o remount,size=50% /dev/shm, or docker run --shm-size=8g";
  }
  return finding;
}

}  // namespace

std::vector<Finding> check_memory() { return {memory_finding(), shared_memory_finding()}; }

}  // namespace millrace::doctor
