// Format names: the format of a data file, by its name.
//
// A trace has no contents. The extension decides, then parts of the name that are customary
// ("train-00003-of-00128" is TFRecord). A format that `bench` cannot write becomes raw: the bytes
// of the samples without structure.
#pragma once

#include <cstdint>
#include <string_view>

#include "bench/workload/choices.h"

namespace millrace::model {

struct FormatName {
  bench::DatasetFormat format = bench::DatasetFormat::kRaw;
  bench::Compression compression = bench::Compression::kNone;
  bool known = true;                 // false: raw, because there is no such format
  bool one_sample_per_file = false;  // images
};

// `extension` is as in Profile::extensions: ".jpg", ".csv.gz", "(none)". `path` is one of the
// files.
FormatName format_of_name(std::string_view extension, std::string_view path);

// How large samples are in a file that `bench` generates.
struct StoredSize {
  double bytes_per_byte = 1;  // of the record
  uint64_t per_file_bytes = 0;
  uint64_t per_sample_bytes = 0;

  // The record whose samples take `file_bytes` in a file; at least 1.
  double record_bytes(double file_bytes, uint64_t samples) const;
};

StoredSize stored_size_of(bench::DatasetFormat format);

}  // namespace millrace::model
