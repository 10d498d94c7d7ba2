// ByteSource: random access to the bytes of a file or of memory. Readers of files can be tested and
// fuzzed without a file.
#pragma once

#include <string>
#include <vector>

#include "base/base.h"
#include "base/io/file.h"
#include "base/result.h"

namespace millrace::trace {

class ByteSource {
 public:
  // Opens a file. It is read on demand, not mapped: a trace may still be written, and reading a
  // truncated mapping would kill the reader with a signal.
  static Result<ByteSource> from_file(const std::string& path);
  // A part of a file, optionally followed by another file: a child page with its further rings.
  struct Piece {
    std::string path;
    uint64_t offset = 0;
    uint64_t size_bytes = 0;
    std::string more_path;
  };
  static Result<ByteSource> from_piece(const Piece& piece);
  // `bytes` must outlive the source.
  explicit ByteSource(ByteView bytes) : bytes_(bytes), size_bytes_(bytes.size()) {}

  uint64_t size_bytes() const { return size_bytes_; }  // when it was opened or last refreshed

  // Updates the size of a file that is still written. Does nothing for memory and pieces.
  Status look_again();

  // `size_bytes` bytes from `offset` on: a view of the memory, or of `scratch`, into which they are
  // read. If the source is too short, it fails before allocating anything.
  Result<ByteView> view(uint64_t offset, size_t size_bytes, std::vector<std::byte>& scratch) const;

 private:
  ByteSource(File file, uint64_t size_bytes) : file_(std::move(file)), size_bytes_(size_bytes) {}

  File file_;
  ByteView bytes_;
  uint64_t size_bytes_ = 0;
  uint64_t begin_ = 0;        // where the source begins in file_
  uint64_t piece_bytes_ = 0;  // how much of file_ belongs to it if more_ follows; 0: all
  File more_;
};

}  // namespace millrace::trace
