#include <fmt/core.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/file.h"
#include "base/units.h"
#include "doctor/checks.h"

namespace millrace::doctor {
namespace {

std::optional<uint64_t> number_in(std::string_view text) {
  const size_t start = text.find_first_of("0123456789");
  if (start == std::string_view::npos) return std::nullopt;
  uint64_t value = 0;
  std::from_chars(text.data() + start, text.data() + text.size(), value);
  return value;
}

std::optional<uint64_t> meminfo_bytes(std::string_view key) {
  const auto meminfo = read_file("/proc/meminfo", 64 << 10);
  if (!meminfo.ok()) return std::nullopt;
  const size_t at = meminfo->find(key);
  if (at == std::string::npos) return std::nullopt;
  const auto kib = number_in(std::string_view(*meminfo).substr(at + key.size()));
  if (!kib) return std::nullopt;
  return *kib * 1024;
}

// The bound a container sets: also the bound of its page cache. "max" has no digits; v1 says "none"
// as a number near 2^63.
std::optional<uint64_t> cgroup_limit_bytes() {
  for (const char* path :
       {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    const auto content = read_file(path, 64);
    if (!content.ok()) continue;
    const auto limit = number_in(*content);
    if (limit && *limit < uint64_t{1} << 60) return limit;
  }
  return std::nullopt;
}

Finding memory_finding() {
  Finding finding;
  finding.name = "memory";
  const auto total = meminfo_bytes("MemTotal:");
  const auto available = meminfo_bytes("MemAvailable:");
  if (!total || !available) {
    finding.state = State::kFailed;
    finding.fact = "/proc/meminfo cannot be read";
    finding.without = "the size of the page cache cannot be judged";
    finding.mend = "mount /proc in this container";
    return finding;
  }
  finding.fact = fmt::format("{} available of {}", format_bytes(*available), format_bytes(*total));
  finding.figures = {{"total_bytes", static_cast<double>(*total)},
                     {"available_bytes", static_cast<double>(*available)}};
  if (const auto limit = cgroup_limit_bytes(); limit && *limit < *total) {
    finding.state = State::kLimited;
    finding.fact += fmt::format("; the cgroup allows {}", format_bytes(*limit));
    finding.without =
        "the page cache counts against that limit, and datasets over it are read again";
    finding.mend = "ask for more memory of the batch system or container";
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
    finding.fact = "/dev/shm is not there";
    finding.without = "MPI ranks of one node and PyTorch's workers cannot share memory";
    finding.mend = "mount -t tmpfs tmpfs /dev/shm";
    return finding;
  }
  const uint64_t free_bytes = uint64_t{info.f_bavail} * info.f_frsize;
  finding.fact = fmt::format("{} free in /dev/shm", format_bytes(free_bytes));
  finding.figures = {{"free_bytes", static_cast<double>(free_bytes)}};
  if (free_bytes < kWanted) {
    finding.state = State::kLimited;
    finding.without = "MPI ranks and PyTorch's workers run out of shared memory";
    finding.mend = "mount -o remount,size=50% /dev/shm, or docker run --shm-size=8g";
  }
  return finding;
}

}  // namespace

std::vector<Finding> check_memory() { return {memory_finding(), shared_memory_finding()}; }

}  // namespace millrace::doctor
