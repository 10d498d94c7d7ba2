// Hdf5Library: everything that needs libhdf5, in a library of ours that is loaded on demand.
//
// libhdf5 is used to learn the layout of a file, to read what we cannot, and to write. It is not
// thread-safe, so every call takes one lock for the process. The lock is also held while the
// process forks: a child finds libhdf5 in a usable state. docs/design/hdf5.md says why it is loaded
// and not linked. A build without the part has hdf5_off.cc instead of library.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/base.h"
#include "base/result.h"
#include "format/format.h"
#include "format/hdf5/layout.h"

namespace millrace::format {

struct Hdf5Rows {
  uint64_t first = 0;
  uint64_t count = 0;
};

// What libmillrace_hdf5.so exports under this name (calls.cc). Both must come from the same
// build. Errors do not have the path of the file.
inline constexpr const char* kHdf5EntryName = "millrace_hdf5_entry";
struct Hdf5Library {
  const char* version;  // of Millrace

  // The datasets of these names; if there are none, all of numbers, in all groups.
  Result<Hdf5Layout> (*read_layout)(const std::string& path, const std::vector<std::string>& names);

  // Reads rows in the type and byte order of the layout. REQUIRES: out has their size.
  Status (*read_rows)(const std::string& path, const Hdf5Dataset& dataset, Hdf5Rows rows,
                      MutableByteView out);

  Result<std::unique_ptr<SampleWriter>> (*create)(const std::string& path,
                                                  const FormatOptions& options);
};

// Loads it once. Fails if this build has no libhdf5, or if it cannot be loaded.
Result<const Hdf5Library*> hdf5_library();

}  // namespace millrace::format
