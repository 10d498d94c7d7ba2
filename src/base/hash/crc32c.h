// crc32c: the Castagnoli checksum that TFRecord, ext4, iSCSI and Millrace's own formats use.
//
// Uses the CPU's instruction if there is one (SSE4.2, ARMv8 CRC; detected at run time), with three
// streams interleaved to hide its latency. Otherwise uses tables. All give the same value.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/base.h"

namespace millrace {

// The checksum of `bytes`. With the checksum of preceding bytes as `before`, the checksum of both
// together: crc32c(b, crc32c(a)) == crc32c(a + b).
uint32_t crc32c(ByteView bytes, uint32_t before = 0);

// How this machine computes it: "SSE4.2", "ARMv8 CRC" or "tables".
std::string_view crc32c_implementation();

// Always uses the tables. For the test and the benchmark.
uint32_t crc32c_by_tables(ByteView bytes, uint32_t before = 0);

}  // namespace millrace
