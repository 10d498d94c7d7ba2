// Memory: how much this machine has, and how much of it this process may use.
#pragma once

#include <cstdint>
#include <optional>

namespace millrace {

// Of the machine, from /proc/meminfo; nothing where it cannot be read.
std::optional<uint64_t> memory_total_bytes();
std::optional<uint64_t> memory_available_bytes();

// The bound a container or batch job sets: also the bound of its page cache. Nothing: none.
std::optional<uint64_t> memory_limit_bytes();

}  // namespace millrace
