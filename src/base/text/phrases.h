// Phrases: parts of sentences that several messages share.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace millrace {

// "1 file", "12,000 files".
std::string counted(uint64_t count, std::string_view one, std::string_view many);

// A time in nanoseconds since 1970, in UTC to the second: "2026-11-15 16:54:15 UTC".
std::string utc_text(int64_t wall_ns);

}  // namespace millrace
