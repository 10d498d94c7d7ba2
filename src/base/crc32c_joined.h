// crc32c_joined: the checksum of a file from those of its pieces.
#pragma once

#include <cstdint>

namespace millrace {

// The checksum of a + b from those of a and b, and the length of b. Takes less than a microsecond,
// so that threads can sum the pieces of a file independently.
uint32_t crc32c_joined(uint32_t a, uint32_t b, uint64_t b_bytes);

}  // namespace millrace
