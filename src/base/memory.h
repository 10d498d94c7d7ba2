// Memory: how much this machine has, how much of it this process may use, and in what pieces.
#pragma once

#include <cstdint>
#include <optional>

namespace millrace {

// Of the machine, from /proc/meminfo; nothing where it cannot be read.
std::optional<uint64_t> memory_total_bytes();
std::optional<uint64_t> memory_available_bytes();

// The bound a container or batch job sets: also the bound of its page cache. Nothing: none.
std::optional<uint64_t> memory_limit_bytes();

// What the kernel maps at once: 4 KiB on x86-64, on aarch64 also 16 or 64. A power of two.
uint64_t page_bytes();

}  // namespace millrace
