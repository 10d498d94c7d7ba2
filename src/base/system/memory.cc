#include "base/system/memory.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "base/io/file.h"
#include "base/system/cgroup.h"

namespace millrace {
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

}  // namespace

uint64_t page_bytes() {
  static const auto bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

std::optional<uint64_t> memory_total_bytes() { return meminfo_bytes("MemTotal:"); }
std::optional<uint64_t> memory_available_bytes() { return meminfo_bytes("MemAvailable:"); }

std::optional<uint64_t> memory_limit_bytes() {
  // v2 writes "max", without digits, for no limit; v1 writes a number near 2^63.
  std::optional<uint64_t> lowest;
  for (const CgroupValue& value :
       cgroup_values({.controller = "memory", .v1 = "memory.limit_in_bytes", .v2 = "memory.max"})) {
    const auto limit = number_in(value.text);
    if (limit && *limit < uint64_t{1} << 60) lowest = std::min(lowest.value_or(*limit), *limit);
  }
  return lowest;
}

}  // namespace millrace
