// indexed: Millrace's own format for many samples: one data file, with an index file beside it.
//
// Samples are stored unchanged, so that they can be read straight into a batch. The index has a
// checksum for every sample, and may have labels. docs/formats/indexed.md.
#pragma once

#include <filesystem>

#include "format/format.h"

namespace millrace::format {

// "train.mrd" has its index in "train.mrx".
std::filesystem::path index_path_of(const std::filesystem::path& data_path);

// Checks and parses an index file. `data_head` is the first 64 bytes of its data file, `data_bytes`
// the length of the data file.
Result<data::FileSamples> parse_indexed(ByteView index_file, ByteView data_head,
                                        uint64_t data_bytes);

}  // namespace millrace::format
