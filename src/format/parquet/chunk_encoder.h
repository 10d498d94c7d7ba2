// chunk_encoder: encodes the values of one column and one row group as pages.
#pragma once

#include <cstdint>
#include <functional>

#include "base/base.h"
#include "base/result.h"
#include "data/buffer.h"
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
  // The size of an item of the column, in `values`.
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

// The rows [begin, end) of a column, each made when its page is.
struct MadeRows {
  const ParquetColumn* column = nullptr;
  uint64_t row_items = 1;  // items or bytes of each row; 1 for numbers
  uint64_t begin = 0;
  uint64_t end = 0;
  std::function<void(uint64_t row, MutableByteView out)> make;

  size_t row_bytes() const;
};

// Takes the next bytes of the pages.
using TakeBytes = std::function<Status(ByteView bytes)>;

// Passes the pages to `take`. The chunk's offset is relative to its first page. REQUIRES: the
// lengths fit, and the type is supported.
Result<ColumnChunk> encode_chunk(const ColumnRows& rows, const ParquetWriteOptions& options,
                                 const TakeBytes& take);
// Likewise, without a dictionary. Pages are made in `room`.
Result<ColumnChunk> encode_made_chunk(const MadeRows& rows, const ParquetWriteOptions& options,
                                      data::Buffer& room, const TakeBytes& take);

}  // namespace millrace::format::parquet
