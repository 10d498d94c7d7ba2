// npz: NumPy's zip file of named arrays. A sample is a file with several arrays.
//
// Members may be stored or deflated; their checksums are verified. Deflated members need zlib, and
// are an error in a build without it.
#pragma once

#include <memory>

#include "format/format.h"

namespace millrace::format {

std::unique_ptr<Format> make_npz(const FormatOptions& options);

}  // namespace millrace::format
