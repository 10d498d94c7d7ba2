// npz: NumPy's zip of named arrays: a sample is a file with several arrays.
//
// Stored and deflated members, checked against their checksums. Deflated ones need zlib; without it
// they are an error that says so.
#pragma once

#include <memory>

#include "format/format.h"

namespace millrace::format {

std::unique_ptr<Format> make_npz(const FormatOptions& options);

}  // namespace millrace::format
