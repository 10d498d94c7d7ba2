// ParquetFile: the footer of a Parquet file, and its row groups as columns in memory.
//
//   ASSIGN_OR_RETURN(const auto reader, engine.open(path));
//   ASSIGN_OR_RETURN(const ParquetFile file, ParquetFile::open(*reader));
//   ASSIGN_OR_RETURN(const auto chosen, file.choose({"user", "clicks"}));
//   ASSIGN_OR_RETURN(const auto group, file.read_row_group(*reader, 0, chosen, &pool));
//   group.columns[1].values();
//
// Immutable: many threads may read row groups at once. Errors name the row group and the column,
// but not the file.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/concurrency/thread_pool.h"
#include "base/result.h"
#include "format/parquet/column_data.h"
#include "format/parquet/metadata.h"
#include "format/parquet/schema.h"
#include "io/engine.h"

namespace millrace::format {

// Some columns of a row group.
struct RowGroupColumns {
  uint64_t row_count = 0;
  std::vector<parquet::ColumnData> columns;  // as chosen

  uint64_t memory_bytes() const;
};

class ParquetFile {
 public:
  static Result<ParquetFile> open(const io::Reader& reader, parquet::DecodeLimits limits = {});

  const parquet::FileMetadata& metadata() const { return metadata_; }
  const std::vector<parquet::Column>& columns() const { return columns_; }
  uint64_t row_group_count() const { return metadata_.row_groups.size(); }
  uint64_t row_count(uint64_t row_group) const { return metadata_.row_groups[row_group].row_count; }
  uint64_t memory_bytes() const;

  // Indexes into columns(): those with these names, or all. Fails if one is missing or cannot be
  // read, and says why.
  Result<std::vector<size_t>> choose(std::span<const std::string> names) const;

  // Reads and decodes the chosen columns, on the threads of `pool` if it is not null and on the
  // caller's. Chunks that are close together are read at once.
  // REQUIRES: row_group < row_group_count(); `chosen` are indexes into columns().
  Result<RowGroupColumns> read_row_group(const io::Reader& reader, uint64_t row_group,
                                         std::span<const size_t> chosen, ThreadPool* pool) const;

  // The value of a property of the file; null if there is none.
  const std::string* property(std::string_view key) const;

 private:
  parquet::FileMetadata metadata_;
  std::vector<parquet::Column> columns_;
  parquet::DecodeLimits limits_;
};

}  // namespace millrace::format
