// format: how samples are stored in files: raw, npy, npz, TFRecord, tar (WebDataset), indexed, csv,
// json, HDF5, Parquet and others.
//
// A Format finds the samples in a file (their offsets, not their content), splits the bytes of a
// sample into named arrays, and writes files that it and other readers can read. Each format is one
// file and one line in a table (format.cc). Thread-safe. Stateless, except that split() may use
// what index() has learned from the files, such as the names of the columns of a csv file.
//
// Input is untrusted: lengths, checksums and counts are checked before use. An error says where and
// what; the caller adds the path.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/base.h"
#include "base/result.h"
#include "data/array.h"
#include "data/buffer.h"
#include "data/dataset.h"
#include "data/source.h"
#include "io/engine.h"

namespace millrace::format {

// A named array of a sample: "jpg" in a tar, a feature of an Example, "data" if the sample is a
// single array. Bytes without a type are uint8 with one axis.
struct Field {
  std::string_view name;
  data::ArrayView array;
  // Numbers that the file has as text (csv, json). Their type is a guess, so that they also fit any
  // other type that can hold them.
  bool is_number_text = false;
  bool is_text = false;  // uint8 that are text (csv, json); unset, they may be anything
};

Field bytes_field(std::string_view name, ByteView bytes);

// The fields of one sample: views into its bytes, or into memory of this object if they had to be
// inflated or converted. Reused for the next sample.
class SampleFields {
 public:
  void clear();
  void add(Field field) { list_.push_back(field); }
  std::span<const Field> list() const { return list_; }

  // The first of the names that exists: "jpg;jpeg;png". Null if none does.
  const Field* find(std::string_view names) const;
  std::string names() const;  // "'jpg', 'cls'", for errors

  // For samples that begin with a description of their fields, which is often that of the sample
  // before. remember() keeps it; repeat() then only points the fields at the new sample. It returns
  // false, and does nothing, if the description or the length is another.
  void remember(ByteView sample, size_t head_bytes);
  bool repeat(ByteView sample);
  // Whether the list differs from the one before only in the bytes of the fields.
  bool is_repeated() const { return is_repeated_; }

  // Memory that stays valid until clear().
  MutableByteView room(size_t size_bytes);
  std::string_view keep(std::string_view text);

 private:
  std::vector<Field> list_;
  std::vector<std::byte> head_;  // of the sample that was remembered; empty: none
  std::vector<size_t> offsets_;  // of its fields
  size_t remembered_bytes_ = 0;  // its length
  bool is_repeated_ = false;
  // Deques, because their elements do not move when they grow.
  std::deque<data::Buffer> rooms_;
  size_t rooms_used_ = 0;
  std::deque<std::string> texts_;
  size_t texts_used_ = 0;
};

// Writes samples one after another. Without finish() there is no valid file.
class SampleWriter {
 public:
  virtual ~SampleWriter() = default;

  // `key` is the name of the sample, if the format stores names.
  virtual Status add(std::string_view key, std::span<const Field> fields) = 0;
  virtual Status finish() = 0;
};

enum class HeaderRow : uint8_t { kDetect, kYes, kNo };
// For writing Parquet files.
struct ParquetOptions {
  std::string compression = "zstd";  // or none, snappy, gzip
  uint64_t row_group_rows = 0;       // 0: as many as have 64 MiB
};

struct FormatOptions {
  uint64_t record_bytes = 0;  // raw: the length of every record; 0 if a file is one sample
  bool rows = false;          // npy: each row is a sample; otherwise the file is one sample
  // csv, tsv: whether the first row of a file names the columns. Detected: it does if each of its
  // cells is text, and no two are equal.
  HeaderRow header = HeaderRow::kDetect;
  // csv, tsv, json, jsonl: the type of numbers that are not all integers, kF32 or kF64.
  data::ElementType text_float = data::ElementType::kF32;
  // megatron: a sample is this number of tokens and the one after them; 0: a document.
  uint64_t window_tokens = 0;
  // tfrecord_gzip: memory for inflated files, which is also the length limit of one.
  uint64_t inflated_bytes_max = uint64_t{4} << 30;
  // tfrecord_gzip: files that were inflated to find their records stay in that memory. A benchmark
  // does not want that: its first epoch would read nothing.
  bool keeps_indexed_files = true;
  struct Hdf5 {
    std::vector<std::string> datasets;  // the ones to read; if there are none, all
    bool whole_files = false;           // a file is one sample; otherwise each row is one
    // For writing:
    uint64_t sample_count = 0;  // of the file, if known: then rows are contiguous
    uint64_t chunk_rows = 0;    // rows per chunk; 0: contiguous, or chunks of about 1 MiB
    // Of datasets with as many axes, at least 2, of which the first is the rows; one axis less: of
    // a row. A dataset that may grow has chunks.
    std::vector<uint64_t> chunk_dims = {};
    std::vector<uint64_t> max_dims = {};
    uint64_t buffer_bytes =
        1024 * 1024;       // rows of a dataset that are collected and written at once
    int gzip_level = 0;    // 1 to 9; 0: not compressed
    bool shuffle = false;  // bytes of equal significance together, before gzip
    // Datasets of one sample's fields, whose bytes may be missing, and of sample_count rows without
    // elements: their room is in the file, for someone who fills it.
    bool without_rows = false;
  } hdf5 = {};
  // parquet: the columns to read, in this order; empty: all.
  std::vector<std::string> columns = {};
  ParquetOptions parquet = {};
};

class Format {
 public:
  virtual ~Format() = default;

  virtual std::string_view name() const = 0;

  // True if each file is one sample. Then index() is not needed, and no file is opened for it.
  virtual bool is_file_a_sample() const = 0;

  // The offsets and lengths of the samples in a file.
  virtual Result<data::FileSamples> index(io::Engine& engine,
                                          const std::filesystem::path& path) const = 0;

  // True if samples are not ranges of bytes of a file, such as rows of compressed chunks. Then
  // open() is used instead of index().
  virtual bool has_own_source() const { return false; }
  virtual Result<std::shared_ptr<data::SampleSource>> open(std::shared_ptr<io::Engine> engine,
                                                           const std::vector<std::string>& paths,
                                                           size_t thread_count) const;

  // The fields in the bytes of a sample. `fields` is cleared first.
  virtual Status split(ByteView sample, SampleFields& fields) const = 0;

  virtual Result<std::unique_ptr<SampleWriter>> create(io::Engine& engine,
                                                       const std::filesystem::path& path) const = 0;
};

// By name; the error for an unknown name lists the known ones.
Result<std::unique_ptr<Format>> open_format(std::string_view name,
                                            const FormatOptions& options = {});

// The name of the format, by the file's extension ("x/train-00.tar"). The error lists the formats.
Result<std::string_view> format_of(const std::filesystem::path& path);

// Whether the file has an extension of this format.
bool has_name_of(std::string_view file, std::string_view format_name);

// With the dot: {".tar"}.
std::span<const std::string_view> extensions_of(std::string_view format_name);
std::vector<std::string> format_names();

}  // namespace millrace::format
