// ParquetWriter: writes a Parquet file, a batch of rows at a time, column by column.
//
//   ASSIGN_OR_RETURN(auto writer, ParquetWriter::create(engine, path, {{.name = "x"}}, {}));
//   RETURN_IF_ERROR(writer->append(row_count, {{{.values = bytes_of_x}}}));
//   RETURN_IF_ERROR(writer->finish());
//
// A batch that fills whole row groups is encoded where it is, without a copy. Equal rows give equal
// files, whatever the batches and the number of threads. Columns have no nulls and no statistics.
// Single-threaded. Without finish() there is no valid file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/base.h"
#include "base/concurrency/thread_pool.h"
#include "base/result.h"
#include "data/array.h"
#include "data/buffer.h"
#include "format/appender.h"
#include "format/parquet/metadata.h"
#include "io/engine.h"

namespace millrace::format {

struct ParquetColumn {
  enum class Kind : uint8_t {
    kNumber,
    kList,   // of numbers, of any length
    kBytes,  // of any length
    kText,   // likewise, in UTF-8
  };

  std::string name;
  Kind kind = Kind::kNumber;
  data::ElementType type = data::ElementType::kF32;  // of numbers and items; not kBf16
};

// The values of a column in a batch of rows.
struct ParquetValues {
  ByteView values;  // one after another
  // For lists and bytes: where each row begins, and the end, as numbers of items or bytes. Empty if
  // all rows have the same length.
  std::span<const uint64_t> offsets = {};
};

// The column for arrays of this type and shape: bytes are one value, other arrays are lists.
ParquetColumn parquet_column_of(std::string name, data::ElementType type, const data::Shape& shape);

struct ParquetWriteOptions {
  parquet::Codec codec = parquet::Codec::kNone;  // or kSnappy, kGzip, kZstd
  uint64_t row_group_rows = 0;                   // 0: as many as have 64 MiB
  uint64_t page_bytes = 1024 * 1024;             // of values, before compression
  // Numbers and bytes that repeat are stored once, if that makes the file smaller.
  bool use_dictionary = true;
  bool has_checksums = true;
  size_t thread_count = 1;  // that encode columns
};

class ParquetWriter {
 public:
  // Fails if a column has an unsupported type, or two have the same name.
  static Result<std::unique_ptr<ParquetWriter>> create(io::Engine& engine,
                                                       const std::filesystem::path& path,
                                                       std::vector<ParquetColumn> columns,
                                                       ParquetWriteOptions options);

  // One entry per column. Fails if the lengths do not fit.
  Status append(uint64_t row_count, std::span<const ParquetValues> columns);

  // Fills `out` with the values of a row in a column.
  using MakeRow = std::function<void(size_t column, uint64_t row, MutableByteView out)>;

  // Appends rows that are made when their page is, column by column, so that a row group takes the
  // memory of a page. All rows of a column have `row_items` items or bytes: one entry per column, 1
  // for numbers. Begins a row group. Uses neither dictionaries nor threads.
  Status append_made(uint64_t row_count, std::span<const uint64_t> row_items, const MakeRow& make);

  // Stored in the footer. Readers that do not know a key ignore it.
  void set_property(std::string key, std::string value);

  Status finish();

  uint64_t row_count() const { return metadata_.row_count + pending_rows_; }

 private:
  // Rows that do not fill a row group yet.
  struct Pending {
    std::vector<std::byte> values;
    std::vector<uint64_t> offsets;  // lists and bytes; begins with 0
  };

  ParquetWriter(std::unique_ptr<io::Writer> writer, std::vector<ParquetColumn> columns,
                ParquetWriteOptions options);

  Status check(uint64_t row_count, std::span<const ParquetValues> columns) const;
  void keep(std::span<const ParquetValues> columns, uint64_t batch_rows, uint64_t begin,
            uint64_t end);
  Status flush();
  uint64_t made_group_rows(std::span<const uint64_t> row_items) const;
  Status write_made_group(std::span<const uint64_t> row_items, const MakeRow& make, uint64_t begin,
                          uint64_t end);
  Status write_row_group(std::span<const ParquetValues> columns, uint64_t batch_rows,
                         uint64_t begin, uint64_t end);
  bool is_full() const;
  uint64_t rows_that_fit(std::span<const ParquetValues> columns, uint64_t batch_rows,
                         uint64_t begin) const;

  Appender out_;
  std::vector<ParquetColumn> columns_;
  ParquetWriteOptions options_;
  parquet::FileMetadata metadata_;
  std::vector<Pending> pending_;
  uint64_t pending_rows_ = 0;
  uint64_t pending_bytes_ = 0;
  std::vector<std::string> encoded_;  // by column, reused
  data::Buffer page_;                 // of made rows
  std::optional<ThreadPool> pool_;
};

}  // namespace millrace::format
