// Sink: the output file of an export. It appears complete or not at all, and is gzip-compressed if
// its name ends in .gz.
//
// Appends are collected into large writes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/io/atomic_file.h"
#include "base/io/gzip.h"
#include "base/result.h"

namespace millrace::interop {

class Sink {
 public:
  static Result<Sink> create(const std::string& path);

  // The text to append to, for encoders that write in place. Call flush_if_full() after each piece.
  std::string& buffer() { return buffer_; }

  Status flush_if_full() {
    if (buffer_.size() < kBufferBytes) return {};
    return flush();
  }

  Status append(std::string_view text) {
    buffer_.append(text);
    return flush_if_full();
  }

  // Writes the rest and gives the file its name.
  Status finish();

  uint64_t written_bytes() const { return written_bytes_; }

 private:
  static constexpr size_t kBufferBytes = 1 << 20;

  Sink(std::string path, AtomicFile file, std::unique_ptr<GzipWriter> gzip);
  Status flush();
  Status write(std::string_view bytes);

  std::string path_;
  AtomicFile file_;
  std::unique_ptr<GzipWriter> gzip_;  // null: not compressed
  std::string buffer_;
  std::string compressed_;
  uint64_t written_bytes_ = 0;
};

}  // namespace millrace::interop
