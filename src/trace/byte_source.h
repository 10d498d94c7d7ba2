// ByteSource: bytes at an offset, of a file or of memory, so that readers of files can be tested
// and fuzzed without one.
#pragma once

#include <string>
#include <vector>

#include "base/base.h"
#include "base/file.h"
#include "base/result.h"

namespace millrace::trace {

class ByteSource {
 public:
  // Takes over an open file. Read as it goes, not mapped: a trace may still be written, and one
  // that is cut short must not end the reader with a signal.
  static Result<ByteSource> from_file(const std::string& path);
  // A part of a file, and behind it, from its size on, another file where there is one: an area of
  // a recording with its further rings.
  struct Piece {
    std::string path;
    uint64_t offset = 0;
    uint64_t size_bytes = 0;
    std::string more_path;
  };
  static Result<ByteSource> from_piece(const Piece& piece);
  // `bytes` must outlive the source.
  explicit ByteSource(ByteView bytes) : bytes_(bytes), size_bytes_(bytes.size()) {}

  uint64_t size_bytes() const { return size_bytes_; }  // when it was opened, or last looked at

  // Looks again how large the file is: it may be written on. Nothing changes for memory and pieces.
  Status look_again();

  // The bytes from `offset` on: a view of memory, or of `scratch`, which they are read into. Fails
  // where the source ends earlier, before anything is allocated.
  Result<ByteView> view(uint64_t offset, size_t size_bytes, std::vector<std::byte>& scratch) const;

 private:
  ByteSource(File file, uint64_t size_bytes) : file_(std::move(file)), size_bytes_(size_bytes) {}

  File file_;
  ByteView bytes_;
  uint64_t size_bytes_ = 0;
  uint64_t begin_ = 0;        // where in file_ it begins
  uint64_t piece_bytes_ = 0;  // how much of file_ it has, where more_ follows; 0: all
  File more_;
};

}  // namespace millrace::trace
