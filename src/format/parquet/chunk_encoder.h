// chunk_encoder: encodes the values of one column and one row group as pages.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"
#include "format/parquet/metadata.h"
#include "format/parquet/parquet_writer.h"

namespace millrace::format::parquet {

// The rows [begin, end) of a batch of `batch_rows` rows.
struct ColumnRows {
  const ParquetColumn* column = nullptr;
  ParquetValues values;
  uint64_t batch_rows = 0;
  uint64_t begin = 0;
  uint64_t end = 0;

  bool has_offsets() const { return column->kind != ParquetColumn::Kind::kNumber; }
  bool is_bytes() const {
    return column->kind == ParquetColumn::Kind::kBytes ||
           column->kind == ParquetColumn::Kind::kText;
  }
  // Of an item of the column, in `values`.
  size_t item_bytes() const { return is_bytes() ? 1 : data::element_bytes(column->type); }
  // Items before a row.
  uint64_t offset(uint64_t row) const {
    if (!has_offsets()) return row;
    if (!values.offsets.empty()) return values.offsets[row];
    return row * (values.values.size() / item_bytes() / batch_rows);
  }
};

struct PhysicalColumn {
  PhysicalType type{};
  int32_t type_length = 0;
  Meaning meaning = Meaning::kNone;
};

// How values of the column are stored.
PhysicalColumn physical_of(const ParquetColumn& column);

// Takes the pages that are ready, and empties the string.
using TakePages = std::function<Status(std::string& pages)>;

// Appends the pages to `out`, which is empty, and calls `take` after each page if it is not null.
// The chunk's offset is relative to its first page. REQUIRES: the lengths fit, and the type is
// supported.
Result<ColumnChunk> encode_chunk(const ColumnRows& rows, const ParquetWriteOptions& options,
                                 std::string& out, const TakePages& take);

}  // namespace millrace::format::parquet
