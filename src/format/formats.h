// One function per format of the table in format.cc, each in the file of its name.
#pragma once

#include <memory>

#include "format/format.h"

namespace millrace::format {

std::unique_ptr<Format> make_raw(const FormatOptions& options);
std::unique_ptr<Format> make_npy(const FormatOptions& options);
std::unique_ptr<Format> make_npz(const FormatOptions& options);
std::unique_ptr<Format> make_tfrecord(const FormatOptions& options);
std::unique_ptr<Format> make_tar(const FormatOptions& options);
// When writing, a second field "label" with one int32 or int64 becomes the label.
std::unique_ptr<Format> make_indexed(const FormatOptions& options);
std::unique_ptr<Format> make_csv(const FormatOptions& options);
std::unique_ptr<Format> make_tsv(const FormatOptions& options);
std::unique_ptr<Format> make_json(const FormatOptions& options);
std::unique_ptr<Format> make_jsonl(const FormatOptions& options);
std::unique_ptr<Format> make_indexed_binary(const FormatOptions& options);
std::unique_ptr<Format> make_mmap_indexed_binary(const FormatOptions& options);
std::unique_ptr<Format> make_megatron(const FormatOptions& options);
std::unique_ptr<Format> make_tfrecord_gzip(const FormatOptions& options);
std::unique_ptr<Format> make_hdf5(const FormatOptions& options);
std::unique_ptr<Format> make_parquet(const FormatOptions& options);

}  // namespace millrace::format
