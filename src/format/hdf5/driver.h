// hdf5_driver: how libhdf5 opens a file to read, and where its chunks are.
//
// libhdf5 before 1.14 can tell the address of a chunk only by walking the whole index for each: 25
// s for 10,000 chunks. So files are opened there by a driver of ours, which shows what address
// libhdf5 would read a chunk from, without reading it. It also takes no lock on the file, which
// shared file systems often refuse. Callers hold a Hdf5Use.
#pragma once

#include <string>

#include "base/result.h"
#include "format/hdf5/handle.h"
#include "format/hdf5/layout.h"

namespace millrace::format {

Result<Hdf5Id> open_hdf5(const std::string& path);

// False if find_chunks() may return wrong addresses: versions of libhdf5 differ in whether those of
// a file with a user block count from its start.
bool can_find_chunks(hid_t id);

// Fills dataset.chunks. REQUIRES: `id` is of a file from open_hdf5(), and of a chunked dataset
// whose lengths are set.
Status find_chunks(hid_t id, Hdf5Dataset& dataset);

}  // namespace millrace::format
