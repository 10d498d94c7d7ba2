// calls: what libmillrace_hdf5.so does for library.h. Thread-safe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "format/hdf5/library.h"

namespace millrace::format {

Result<Hdf5Layout> read_hdf5_layout(const std::string& path, const std::vector<std::string>& names);

Status read_hdf5_rows(const std::string& path, const Hdf5Dataset& dataset, Hdf5Rows rows,
                      MutableByteView out);

Result<std::unique_ptr<SampleWriter>> create_hdf5(const std::string& path,
                                                  const FormatOptions& options);

}  // namespace millrace::format
