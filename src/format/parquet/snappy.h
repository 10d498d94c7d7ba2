// snappy: Snappy's block format, which most Parquet files use. Written from its description.
#pragma once

#include <string>

#include "base/base.h"
#include "base/result.h"

namespace millrace::format::parquet {

// Fails unless the block yields exactly out.size() bytes.
Status snappy_decompress(ByteView block, MutableByteView out);

// Appends the block to `out`.
void snappy_compress(ByteView bytes, std::string& out);

}  // namespace millrace::format::parquet
