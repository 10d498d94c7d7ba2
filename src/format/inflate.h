// inflate: deflated bytes unpacked, and the checksum of zip files; by zlib where the build has it.
#pragma once

#include <cstdint>

#include "base/base.h"
#include "base/result.h"

namespace millrace::format {

// Unpacks a raw deflate stream that gives exactly out.size() bytes. Without zlib: an error that
// says what to do.
Status inflate_into(ByteView deflated, MutableByteView out);

// CRC-32 as zip, gzip and PNG have it (not crc32c).
uint32_t zip_crc32(ByteView bytes);

}  // namespace millrace::format
