// convert: writes samples of one format as files of another.
//
// Destination files appear complete or not at all: they are written to a temporary directory next
// to their place and renamed after all of them are done. After an error nothing is left. Existing
// files are never replaced.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "format/file_source.h"
#include "format/format.h"

namespace millrace::format {

struct ConvertOptions {
  FilesOptions from;
  std::string to;  // a format
  FormatOptions to_options;
  // A file, if its name has an extension of the format; otherwise a directory, which gets one file
  // for each source file.
  std::filesystem::path destination;
  uint64_t samples_per_file = 0;    // of all source files; 0: a destination file per source file
  std::vector<std::string> fields;  // only these; empty: all
  bool verify = false;              // read the files back and compare all samples
  size_t thread_count = 0;          // 0 for as many as there are CPUs
  std::function<void(uint64_t sample_count)> begin;  // called once, when the samples are known
  std::function<void()> done_sample;                 // called by any thread
};

struct ConvertReport {
  uint64_t sample_count = 0;
  std::vector<std::filesystem::path> files;  // without those that belong to another (.idx)
  uint64_t size_bytes = 0;                   // of all files
};

Result<ConvertReport> convert_files(const ConvertOptions& options);

// Whether a field that was read back has the values of the one that was written. Formats without
// types (raw) keep only the bytes; formats that have other types (csv, TFRecord) keep the numbers.
bool has_same_values(const Field& written, const Field& read);

}  // namespace millrace::format
