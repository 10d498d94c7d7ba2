// hdf5_rows: reads rows of a dataset through an engine, without libhdf5 unless nothing else can.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/base.h"
#include "base/result.h"
#include "format/hdf5/chunk.h"
#include "format/hdf5/library.h"
#include "io/engine.h"

namespace millrace::format {

// Where rows are read from.
struct Hdf5Place {
  const std::string* path = nullptr;  // for libhdf5
  const io::Reader* reader = nullptr;
  ChunkKey key;  // of the dataset's first chunk
};

// The first byte of the rows in the file, if they are one run of bytes there.
std::optional<uint64_t> direct_offset(const Hdf5Dataset& dataset, Hdf5Rows rows);

// Reads the rows into `out`, which has their size. The error says which chunk is damaged.
// REQUIRES: check_dataset() accepts the dataset, and it has these rows.
Status read_rows(const Hdf5Dataset& dataset, const Hdf5Place& place, Hdf5Rows rows,
                 MutableByteView out);

// Fails if a part of the dataset is beyond the end of the file.
Status check_within_file(const Hdf5Dataset& dataset, uint64_t file_bytes);

}  // namespace millrace::format
