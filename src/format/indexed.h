// indexed: Millrace's own file of many samples: one data file, one index file beside it.
//
// The bytes of a sample lie as they are, so that they can be read straight into a batch; every one
// has a checksum in the index, and may have a label. docs/formats/indexed.md.
#pragma once

#include <filesystem>
#include <memory>

#include "format/format.h"

namespace millrace::format {

// "train.mrd" has its index in "train.mrx".
std::filesystem::path index_path_of(const std::filesystem::path& data_path);

// The bytes of an index file and of the first 64 bytes of its data file, checked. `data_bytes` is
// the length the data file has.
Result<data::FileSamples> parse_indexed(ByteView index_file, ByteView data_head,
                                        uint64_t data_bytes);

// A field of one int32 or int64 named "label" beside the one with the bytes becomes the label.
std::unique_ptr<Format> make_indexed(const FormatOptions& options);

}  // namespace millrace::format
