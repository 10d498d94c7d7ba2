// Dataset: which samples exist and where their bytes are; compact enough for millions of them.
//
// Immutable once built, so any number of threads may use it at once. A directory name is stored
// once, all names share one arena, and no sample has an allocation of its own. A file that is one
// sample takes its name and 12 bytes (16 with a label). A record among records of equal length
// takes nothing. docs/design/dataset.md has the measurement and the rejected alternatives.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "data/array.h"
#include "data/sample.h"

namespace millrace::data {

// The state of a file when it was indexed, to detect later changes. Zero: unknown.
struct FileStamp {
  uint64_t size_bytes = 0;
  int64_t modified_ns = 0;  // since 1970-01-01 UTC

  bool operator==(const FileStamp&) const = default;
};

struct Span {
  uint64_t offset_bytes = 0;
  uint64_t size_bytes = 0;

  bool operator==(const Span&) const = default;
};

// The samples that a format finds in one file, in file order.
struct FileSamples {
  enum class Kind : uint8_t {
    kWhole,    // the file is one sample
    kRecords,  // `record_count` records of `record_bytes`, starting at `offset_bytes`
    kListed,   // `spans`
  };

  Kind kind = Kind::kWhole;
  uint64_t offset_bytes = 0;
  uint64_t record_bytes = 0;
  uint64_t record_count = 0;
  std::vector<Span> spans;
  // Each is either empty or has one entry per sample.
  std::vector<std::string> names;    // within the file, as users know them
  std::vector<int32_t> labels;       // -1: none
  std::vector<uint32_t> checksums;   // crc32c of the sample's bytes
  std::optional<FieldSpec> element;  // kRecords: what each record holds, if the file says so
  FileStamp stamp;

  uint64_t count() const;
};

class Dataset {
 public:
  uint64_t sample_count() const { return sample_count_; }
  uint64_t file_count() const { return name_ends_.size(); }

  // REQUIRES: sample < sample_count(), file < file_count(), here and below.
  Extent extent(SampleId sample) const;
  FileIndex file_of(SampleId sample) const;
  std::string path(FileIndex file) const;
  FileStamp stamp(FileIndex file) const;

  // "train/cat/7.jpg", "shards/000.tar: sample 'n01_7' at byte 10240", "x.bin: record 3 at byte
  // 36".
  std::string name(SampleId sample) const;

  std::optional<int64_t> label(SampleId sample) const;
  std::optional<uint32_t> checksum(SampleId sample) const;  // crc32c of its bytes

  // Indexed by label; empty if there are no labels or they have no names.
  std::span<const std::string> class_names() const { return class_names_; }

  // The first sample of a file. For file_count(): one past the last sample of the dataset.
  SampleId file_begin(uint64_t file) const;

  // Heap memory in use.
  uint64_t memory_bytes() const;

 private:
  friend class DatasetBuilder;

  // Where the samples of a file begin and how to find them. Unused if every file is one sample.
  struct FileEntry {
    uint64_t first_sample = 0;
    uint64_t offset_bytes = 0;  // kRecords
    uint64_t record_bytes = 0;  // kRecords
    uint64_t first_span = 0;    // kListed: into spans_
    FileStamp stamp;
    FileSamples::Kind kind = FileSamples::Kind::kWhole;
  };

  std::string_view text(const std::vector<char>& arena, const std::vector<uint64_t>& ends,
                        uint64_t index) const;

  uint64_t sample_count_ = 0;
  std::vector<std::string> directories_;
  std::vector<uint32_t> file_directories_;  // into directories_, by file
  std::vector<char> names_;                 // file names, concatenated
  std::vector<uint64_t> name_ends_;         // into names_, by file
  std::vector<FileEntry> entries_;          // by file; empty: every file is one sample
  std::vector<Span> spans_;
  std::vector<char> sample_names_;
  std::vector<uint64_t> sample_name_ends_;  // by sample; empty: samples have no names
  std::vector<int32_t> labels_;             // by sample; empty: none
  std::vector<uint32_t> checksums_;         // by sample; empty: none
  std::vector<std::string> class_names_;
};

// Builds a Dataset file by file. Single-threaded.
class DatasetBuilder {
 public:
  // A file that is one sample. `directory` may be empty; equal directories are stored once.
  Status add_file(std::string_view directory, std::string_view name,
                  std::optional<int32_t> label = std::nullopt);

  // A file and its samples.
  Status add_file(std::string_view path, const FileSamples& samples);

  void set_class_names(std::vector<std::string> names) { dataset_.class_names_ = std::move(names); }

  Dataset build() &&;

 private:
  Status add_name(std::string_view directory, std::string_view name);
  Result<uint32_t> directory_index(std::string_view directory);
  void begin_entries();
  void add_sample_columns(const FileSamples& samples);

  Dataset dataset_;
  std::unordered_map<std::string, uint32_t> directories_;
  uint32_t last_directory_ = 0;
};

}  // namespace millrace::data
