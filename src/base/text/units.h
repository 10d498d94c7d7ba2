// Units: sizes, durations, rates and counts as people write and read them.
//
// KiB, MiB, GiB are powers of 1024; kB, MB, GB are powers of 1000. The two are never mixed or
// guessed: a bare "64K" or "64M" is refused, because half of its readers would be wrong. Output
// always says which is meant.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace millrace {

// "4096", "64KiB", "1.5GB", "2 TiB"; exact, rounded to the nearest byte.
Result<uint64_t> parse_bytes(std::string_view text);

// "250us", "1.5 ms", "2s", "10min", "1h", "3d". A number without a unit is refused, except 0.
Result<std::chrono::nanoseconds> parse_duration(std::string_view text);

enum class ByteUnits {
  kBinary,   // KiB, MiB: memory, and sizes that are powers of two
  kDecimal,  // kB, MB: devices, networks and bandwidths, as vendors count
};

// Three significant digits: "64 KiB", "1.46 GiB", "1.5 GB"; below the first unit "512 B".
std::string format_bytes(uint64_t size_bytes, ByteUnits units = ByteUnits::kBinary);

// "1.46 GB/s"; always decimal, as vendors count.
std::string format_bandwidth(double bytes_per_second);

// "250 ns", "1.5 ms", "12 s", "3 min 20 s", "2 h 05 min".
std::string format_duration(std::chrono::nanoseconds duration);

// "950", "1.28 M": three significant digits.
std::string format_count(double count);

// "1,280,000".
std::string format_exact(uint64_t count);

// "12.5 %"; "<0.1 %" for values above 0 that would print as 0.
std::string format_percent(double fraction);

}  // namespace millrace
