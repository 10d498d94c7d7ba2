// Memory: how much this machine has, how much of it this process may use, and the page size.
#pragma once

#include <cstdint>
#include <optional>

namespace millrace {

// Of the machine, from /proc/meminfo; nullopt if it cannot be read.
std::optional<uint64_t> memory_total_bytes();
std::optional<uint64_t> memory_available_bytes();

// The limit of a container or batch job (cgroup v1 or v2), which also limits its page cache;
// nullopt if there is none.
std::optional<uint64_t> memory_limit_bytes();

// The page size: 4 KiB on x86-64; 4, 16 or 64 KiB on aarch64. A power of two.
uint64_t page_bytes();

}  // namespace millrace
