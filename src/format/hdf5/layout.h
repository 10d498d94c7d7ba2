// Hdf5Layout: where the datasets of an HDF5 file are, as libhdf5 found them when it was opened.
//
// Plain values. With them, samples are read without libhdf5 and without its lock. The numbers come
// from an untrusted file: check_layout() checks those that reads depend on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "data/array.h"

namespace millrace::format {

// What was done to the bytes of a chunk when it was written, in this order.
struct Hdf5Filter {
  enum class Kind : uint8_t { kShuffle, kDeflate, kLzf, kFletcher32 };

  Kind kind = Kind::kDeflate;
  uint32_t element_bytes = 1;  // kShuffle
};

struct Hdf5Chunk {
  static constexpr uint64_t kNowhere = ~uint64_t{0};  // never written: it has the fill value

  uint64_t offset_bytes = kNowhere;
  uint32_t size_bytes = 0;
  uint32_t skipped_filters = 0;  // bit i: filter i was not applied
};

struct Hdf5Dataset {
  enum class Kind : uint8_t {
    kContiguous,  // one run of bytes at `offset_bytes`
    kChunked,     // `chunks`
    kHeld,        // small: its elements are in `held`
    kFill,        // never written: every element is `fill`
    kLibrary,     // only libhdf5 can read it
  };

  std::string name;  // its path without the first slash: "train/x"
  data::ElementType type = data::ElementType::kU8;
  std::vector<uint64_t> lengths;  // of all axes; none for a scalar
  Kind kind = Kind::kContiguous;
  uint64_t offset_bytes = 0;
  std::vector<uint64_t> chunk_lengths;
  std::vector<Hdf5Chunk> chunks;  // in C order of the grid
  std::vector<Hdf5Filter> filters;
  std::vector<std::byte> fill;  // one element
  std::vector<std::byte> held;

  // A scalar is one row. Below, a row is an entry along the first axis.
  uint64_t row_count() const { return lengths.empty() ? 1 : lengths[0]; }
  uint64_t row_bytes() const;
  uint64_t size_bytes() const { return row_count() * row_bytes(); }
  uint64_t chunk_bytes() const;  // of a decoded chunk
  // The number of chunks along an axis.
  uint64_t grid_length(size_t axis) const {
    return (lengths[axis] + chunk_lengths[axis] - 1) / chunk_lengths[axis];
  }
};

struct Hdf5Layout {
  std::vector<Hdf5Dataset> datasets;  // sorted by name, or as they were asked for
  std::vector<std::string> ignored;   // datasets that cannot be read: "'names' (of any length)"
};

// Fails if sizes overflow, or if a number that reads depend on is out of range. The error names the
// dataset.
Status check_layout(const Hdf5Layout& layout);
Status check_dataset(const Hdf5Dataset& dataset);  // likewise, without its name

}  // namespace millrace::format
