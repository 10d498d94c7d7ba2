// Hdf5Outline: an HDF5 file without the elements of its datasets.
//
// libhdf5 creates it once for a dataset whose files have equal shapes. Each file is then written by
// us from start to end: the bytes of the outline, and between them the elements. That needs no lock
// and no copy of a sample. Only contiguous datasets: chunks are written by libhdf5.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/base.h"
#include "base/result.h"
#include "bench/generate/dataset_format.h"

namespace millrace::bench {

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

// Nullopt if libhdf5 has to write the files. `arrays` are those of a sample, without the label.
Result<std::optional<Hdf5Outline>> make_hdf5_outline(const DatasetConfig& dataset,
                                                     const std::vector<SampleArray>& arrays);

}  // namespace millrace::bench
