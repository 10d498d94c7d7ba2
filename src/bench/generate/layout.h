// Layout: which files a workload's dataset has: their names, and the shapes of their samples.
//
// Names and sizes are those of DLIO, so that either tool can use the other's dataset:
//
//   {data_folder}/{train|valid}/[{subfolder}/]{prefix}_{index}_of_{count}.{format}
//
// with `.gz` behind it if a csv or tsv file is compressed with gzip.
//
// The index is padded with zeros to the digits of the count. Files go to the subfolders in turn. A
// record is a square of bytes, or what dataset.record_dims says; if record_length_bytes_stdev is
// set, each file draws both of its axes. All samples of a file have the same shape.
//
// A pure function of the workload: nothing is listed. It takes 8 bytes of memory for a file if
// sizes vary, otherwise none. Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/workload/workload.h"
#include "data/array.h"

namespace millrace::bench {

enum class Split : uint8_t { kTrain, kEval };

// "train" and "valid": the names of the folders.
std::string_view split_name(Split split);

struct FileId {
  Split split = Split::kTrain;
  uint64_t index = 0;  // below Layout::file_count(split)

  bool operator==(const FileId&) const = default;
};

// A sample of a dataset, by its place.
struct SampleRef {
  FileId file;
  uint64_t sample = 0;  // in its file

  bool operator==(const SampleRef&) const = default;
};

class Layout {
 public:
  // Fails if a file would be larger than 2^63 bytes, or has more axes than an array can have.
  static Result<Layout> of(const Workload& workload);

  uint64_t file_count(Split split) const { return splits_[index_of(split)].file_count; }
  uint64_t file_count() const { return file_count(Split::kTrain) + file_count(Split::kEval); }
  uint64_t samples_per_file() const { return samples_per_file_; }

  // Train files first, then those of evaluation. REQUIRES: `position` < file_count().
  FileId file_at(uint64_t position) const;

  const std::string& data_folder() const { return data_folder_; }
  // The folder of a split, or one of its subfolders.
  std::string folder(Split split) const;
  uint64_t subfolder_count(Split split) const { return splits_[index_of(split)].subfolder_count; }
  std::string subfolder(Split split, uint64_t index) const;

  std::string file_name(FileId file) const;
  std::string path(FileId file) const;

  // The type and shape of one sample of the file.
  data::ElementType element_type() const { return element_type_; }
  data::Shape record_shape(FileId file) const;
  uint64_t record_bytes(FileId file) const;

  bool has_equal_files() const { return squares_.empty(); }

  // The records of all samples, without what the format adds.
  uint64_t payload_bytes(FileId file) const { return record_bytes(file) * samples_per_file_; }
  uint64_t payload_bytes(Split split) const;

 private:
  struct SplitFiles {
    uint64_t file_count = 0;
    uint64_t subfolder_count = 0;  // 0: files are in the folder of the split
  };
  struct Square {
    uint32_t rows = 1;
    uint32_t columns = 1;
  };

  Layout() = default;
  static size_t index_of(Split split) { return static_cast<size_t>(split); }
  Status set_shape(const DatasetConfig& dataset);
  Status check_sizes() const;

  std::string data_folder_;
  std::string file_prefix_;
  std::string extension_;
  SplitFiles splits_[2];
  uint64_t samples_per_file_ = 1;
  data::ElementType element_type_ = data::ElementType::kU8;
  data::Shape shape_;            // of all files, if squares_ is empty
  std::vector<Square> squares_;  // one per file, train files first; empty: all have shape_
};

// Whether files are text that is compressed as a whole.
bool is_gzip_text(const DatasetConfig& dataset);

// "data", or the folder in storage.storage_root if that is set: without a final slash.
std::string data_folder_of(const Workload& workload);

}  // namespace millrace::bench
