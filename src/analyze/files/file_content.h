// file_content: what the first bytes of a file are.
//
// A name may say nothing (".mgz", ".vcf"), or too little (an .npz file may be compressed or not).
#pragma once

#include <string>
#include <string_view>

#include "base/base.h"

namespace millrace::analyze {

// "text", "numpy", "image", "hdf5", "gzip", "zip", "zip stored", "zstd", "xz", "bzip2", "lz4";
// empty if it is none of these.
std::string_view content_of(ByteView first_bytes);

// The same for a file that may be gone. Empty if it cannot be read, or is not a regular file.
std::string_view content_of_file(const std::string& path);

}  // namespace millrace::analyze
