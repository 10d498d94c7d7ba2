// ParquetSource: the rows of Parquet files as samples.
//
// A row group is read and decoded as a whole, with all chosen columns, turned into rows, and kept
// in a cache that all threads share. Its rows are then served from memory. So a row costs little if
// its neighbours are read at about the same time, and a whole row group if rows are read at random:
// row groups are the groups of the source, for shuffles that keep them together.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/concurrency/shared_cache.h"
#include "base/concurrency/thread_pool.h"
#include "base/result.h"
#include "data/dataset.h"
#include "data/source.h"
#include "format/parquet/parquet_file.h"
#include "format/parquet/row_fields.h"
#include "format/reader_table.h"
#include "io/engine.h"

namespace millrace::format {

struct ParquetSourceOptions {
  std::vector<std::string> columns;  // empty: all
  size_t thread_count = 0;           // that decode; 0: as many as there are CPUs
  // Decoded row groups. At least one is kept, whatever its size.
  uint64_t cache_bytes = uint64_t{1} << 30;
  uint64_t footer_cache_bytes = uint64_t{128} << 20;
  parquet::DecodeLimits limits;
};

class ParquetSource final : public data::SampleSource {
 public:
  // Reads the footers of all files. Fails unless they have the same fields.
  static Result<std::shared_ptr<ParquetSource>> open(std::shared_ptr<io::Engine> engine,
                                                     const std::vector<std::string>& paths,
                                                     ParquetSourceOptions options);

  uint64_t sample_count() const override { return group_begins_.back(); }
  std::string name(data::SampleId sample) const override;
  std::optional<int64_t> label(data::SampleId) const override { return std::nullopt; }
  Result<ByteView> read(data::SampleId sample, data::Buffer& room) const override;
  Result<size_t> read_into(data::SampleId sample, MutableByteView out) const override;
  data::ReadWays ways() const override;
  // Begins to decode the next row groups.
  void prepare(std::span<const data::SampleId> soon) const override;
  uint64_t group_count() const override { return group_begins_.size() - 1; }
  data::SampleId group_begin(uint64_t group) const override {
    return data::SampleId{group_begins_[group]};
  }
  std::string group_path(uint64_t group) const override { return files_[file_of(group)].path; }

  const std::vector<parquet::RowField>& fields() const { return fields_.list(); }

 private:
  struct File {
    std::string path;
    data::FileStamp stamp;
    uint64_t first_group = 0;
  };

  ParquetSource(std::shared_ptr<io::Engine> engine, ParquetSourceOptions options,
                std::vector<File> files);

  Status index();
  Result<std::unique_ptr<io::Reader>> open_reader(data::FileIndex file) const;
  Result<ParquetFile> open_footer(uint64_t file) const;
  Result<parquet::GroupRows> read_group(uint64_t group) const;
  uint64_t group_of(data::SampleId sample) const;
  size_t file_of(uint64_t group) const;
  Error named(data::SampleId sample, Error error) const;

  std::shared_ptr<io::Engine> engine_;  // shared with the caller
  ParquetSourceOptions options_;
  std::vector<File> files_;
  std::vector<uint64_t> group_begins_ = {0};  // the first sample of each group, and the end
  parquet::RowFields fields_;
  ReaderTable readers_;
  mutable SharedCache<ParquetFile> footers_;        // by file
  mutable SharedCache<parquet::GroupRows> groups_;  // by group
  mutable std::atomic<size_t> preparing_ = 0;       // row groups that prepare() has begun
  // Last: its tasks use the members above, and must end before those do.
  mutable ThreadPool pool_;
};

}  // namespace millrace::format
