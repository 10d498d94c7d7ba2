// page_crc32: the CRC-32 of pages, the same as zip_crc32() of base/gzip.h, but fast.
//
// With carry-less multiplication (x86_64, detected at run time) it is more than ten times as fast
// as zlib 1.2, so that verified pages cost little more than others.
#pragma once

#include <cstdint>

#include "base/base.h"

namespace millrace::format::parquet {

uint32_t page_crc32(ByteView bytes);

}  // namespace millrace::format::parquet
