// FileJob: one file of a dataset, written from its content.
//
// Formats whose files can be written from start to end are streamed (streamed_file.cc): npz, npy,
// tfrecord, raw, indexed_binary, synthetic. Their length is known beforehand. HDF5 files of equal
// shapes are written around the outline that libhdf5 made (hdf5_file.cc). Images are encoded once
// for many files (image_file.cc). Pages of Parquet are made in place (parquet_file.cc), and need
// memory for a page. All others go sample by sample through their
// format's writer (format_file.cc), and need memory for a sample.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/generate/block_file.h"
#include "bench/generate/content.h"
#include "bench/generate/dataset_format.h"
#include "bench/generate/layout.h"
#include "bench/workload/workload.h"
#include "data/buffer.h"
#include "format/format.h"
#include "io/engine.h"

namespace millrace::bench {

// An HDF5 file without the elements of its datasets. libhdf5 creates it once for a dataset whose
// files have equal shapes. Each file is then written by us from start to end: the bytes of the
// outline, and between them the elements. That needs no lock and no copy of a sample. Only
// contiguous datasets: chunks are written by libhdf5.
struct Hdf5Outline {
  struct Part {
    std::vector<std::byte> before;  // bytes of the outline in front of the elements
    std::string name;               // of the dataset
    uint64_t size_bytes = 0;        // of its elements
  };

  std::vector<Part> parts;        // in the order of the file
  std::vector<std::byte> behind;  // all elements
  uint64_t file_bytes = 0;        // with the elements
};

struct EncodedImage {
  std::vector<std::byte> bytes;
  uint32_t checksum = 0;  // CRC-32C of them
};

// What all files of a dataset share. Thread-safe.
struct DatasetPlan {
  const Workload* workload = nullptr;  // outlives the plan
  Layout layout;
  Content content;
  std::unique_ptr<format::Format> format = {};   // null: streamed, or an image
  std::unique_ptr<io::Engine> engine = {};       // of the format's writer
  std::vector<EncodedImage> images = {};         // files take them in turns
  std::optional<Hdf5Outline> hdf5_outline = {};  // of hdf5, unless its format writes the files
  // The length of every file, if it is known and the same.
  std::optional<uint64_t> equal_file_bytes = {};

  // Fails if the format or its compression cannot be written.
  static Result<DatasetPlan> of(const Workload& workload);
  const DatasetConfig& dataset() const { return workload->dataset; }
  // What a file is written from.
  size_t block_bytes() const {
    return static_cast<size_t>(
        std::min<uint64_t>(BlockFile::kBlockBytes, dataset().generation_buffer_size));
  }
};

// The memory of one thread, reused from file to file.
struct FileRooms {
  data::Buffer block;
  data::Buffer record;
};

struct FileJob {
  const DatasetPlan& plan;
  FileId file;
  std::string path;  // a format may write more files, whose names begin with this one's stem
  FileRooms& rooms;
  BlockFile::Written written;
};

Status write_dataset_file(const FileJob& job);

// The exact length of the file, if it is known without writing it.
std::optional<uint64_t> known_file_bytes(const DatasetPlan& plan, FileId file);
// Including the files beside it; a guess if the length is not known.
uint64_t estimated_file_bytes(const DatasetPlan& plan, FileId file);

// ---- the five ways ----

bool is_streamed(const DatasetConfig& dataset);
// Streamed, but the length of a file is not known before it is written.
bool has_deflated_members(const DatasetConfig& dataset);
Status write_streamed_file(const FileJob& job);
uint64_t streamed_file_bytes(const DatasetPlan& plan, FileId file);

Status prepare_images(DatasetPlan& plan);
Status write_image_file(const FileJob& job);
// "seed 0 train 17", for the comment in an image.
std::string image_identity(const DatasetConfig& dataset, FileId file);

// Nullopt if libhdf5 has to write the files. `arrays` are those of a sample, without the label.
Result<std::optional<Hdf5Outline>> make_hdf5_outline(const DatasetConfig& dataset,
                                                     const std::vector<SampleArray>& arrays);
// REQUIRES: the plan has an outline.
Status write_hdf5_file(const FileJob& job);

// Writes a file of parquet.
Status write_parquet_file(const FileJob& job);

Status write_file_by_format(const FileJob& job);

}  // namespace millrace::bench
