// column_data: decodes the pages of one column chunk.
//
// The values of all rows are contiguous. Numbers and fixed-length byte arrays have one slot per row
// (a null is NaN or 0); lists and byte arrays have offsets.
#pragma once

#include <cstdint>
#include <vector>

#include "base/base.h"
#include "base/result.h"
#include "data/buffer.h"
#include "format/parquet/metadata.h"
#include "format/parquet/schema.h"

namespace millrace::format::parquet {

struct ColumnData {
  static constexpr uint8_t kNullItem = 2;

  uint64_t row_count = 0;
  data::Buffer memory;
  const std::byte* bytes = nullptr;  // in `memory`
  size_t size_bytes = 0;
  // In bytes: where each row begins, and the end. Empty if every row has `item_bytes`.
  std::vector<uint64_t> offsets;
  // Per row: 1 if it has a value, 0 if it is null, kNullItem if an item of its list is null. Empty:
  // there are no nulls.
  std::vector<uint8_t> valid;

  ByteView values() const { return {bytes, size_bytes}; }
  // REQUIRES: row < row_count, here and below.
  ByteView row(uint64_t row, size_t item_bytes) const {
    if (offsets.empty()) return {bytes + row * item_bytes, item_bytes};
    return {bytes + offsets[row], static_cast<size_t>(offsets[row + 1] - offsets[row])};
  }
  uint8_t validity(uint64_t row) const { return valid.empty() ? 1 : valid[row]; }
  uint64_t memory_bytes() const;
};

struct DecodeLimits {
  // Limits of a page and of a decoded chunk. A few damaged bytes could otherwise claim any amount.
  uint64_t page_bytes_max = uint64_t{1} << 31;
  uint64_t chunk_bytes_max = uint64_t{16} << 30;
};

// `pages` are the bytes of the chunk. Fails unless they hold exactly `row_count` rows. An error
// names the page.
Result<ColumnData> decode_chunk(const Column& column, const ColumnChunk& chunk, uint64_t row_count,
                                ByteView pages, const DecodeLimits& limits);

}  // namespace millrace::format::parquet
