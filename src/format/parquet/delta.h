// delta: Parquet's DELTA_BINARY_PACKED: integers as differences in blocks of bit-packed numbers.
#pragma once

#include <cstdint>
#include <vector>

#include "base/base.h"
#include "base/result.h"

namespace millrace::format::parquet {

struct Deltas {
  std::vector<int64_t> values;
  size_t size_bytes = 0;  // how much of the bytes they took
};

// Fails unless there are exactly `count` values.
Result<Deltas> decode_deltas(ByteView bytes, size_t count);

}  // namespace millrace::format::parquet
