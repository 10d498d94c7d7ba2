// LineSource: reads a text file, plain or gzip, in runs of whole lines.
//
// Decompresses on the fly and holds a few megabytes. A gzip file may have many members. A truncated
// file (program killed, disk full) is read up to the cut; problem() then says where that is.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/io/file.h"
#include "base/io/gzip.h"
#include "base/result.h"

namespace millrace::interop {

class LineSource {
 public:
  static Result<LineSource> open(const std::string& path);

  // The next run of lines, each with its newline, except a last line without one. Empty at the end.
  // Valid until the next call. Fails on an error of the operating system or if a line is longer
  // than kLineMaxBytes.
  Result<std::string_view> next();

  // What is wrong with the file, if anything. Set once next() has reached the end.
  const std::string& problem() const { return problem_; }

  uint64_t text_bytes() const { return text_bytes_; }  // returned so far

  static constexpr size_t kLineMaxBytes = 64 << 20;

 private:
  LineSource(File file, std::unique_ptr<GzipReader> gzip);

  Status fill();
  Status fill_plain();
  Status fill_gzip();

  File file_;
  std::unique_ptr<GzipReader> gzip_;  // null: plain text
  std::string input_;                 // compressed bytes
  size_t input_at_ = 0;
  size_t input_size_ = 0;
  uint64_t file_at_ = 0;
  std::string text_;
  size_t text_size_ = 0;  // bytes of text_ that are filled
  size_t returned_ = 0;   // of those, returned by the last next()
  uint64_t text_bytes_ = 0;
  bool ended_ = false;
  std::string problem_;
};

}  // namespace millrace::interop
