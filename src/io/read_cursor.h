// ReadCursor: splits a read into transfers. The caller performs them.
//
//   ReadCursor cursor({.offset_bytes = at, .out = out, .is_direct = true});
//   while (!cursor.is_finished()) cursor.took(pread_of(cursor.next(bounce)));
//   cursor.done_bytes();
//
// It handles two things that every engine must get right. First, direct transfers must begin, end
// and be placed in memory at multiples of kBlockBytes; other parts are read into a bounce buffer
// and copied. Second, a short transfer does not always mean the end of the file. If the kernel
// meets a bad block, it returns the bytes before it as a short read and reports the error only on
// the next read. Such a read ends at a block boundary. A short read that ends elsewhere has reached
// the end of the file, and no further call is needed.
#pragma once

#include <cstdint>

#include "base/base.h"
#include "io/aligned_memory.h"

namespace millrace::io {

// Whether a short transfer that ended at `end_bytes` of the file may have been cut short by an
// error rather than by the end of the file. 512 bytes is the smallest block size.
constexpr bool may_hide_an_error(uint64_t end_bytes) { return end_bytes % 512 == 0; }

class ReadCursor {
 public:
  struct Read {
    uint64_t offset_bytes = 0;
    MutableByteView out;
    bool is_direct = false;
  };

  struct Piece {
    uint64_t offset_bytes = 0;
    MutableByteView into;
  };

  // Maximum size of the bounce buffer.
  static constexpr size_t kBounceBytesMax = size_t{1} << 20;

  explicit ReadCursor(const Read& read) : read_(read), is_finished_(read.out.empty()) {}

  bool is_finished() const { return is_finished_; }
  size_t done_bytes() const { return done_bytes_; }

  // Size of the bounce buffer that next() needs; 0 if it needs none.
  size_t bounce_bytes() const;

  // Returns the next transfer to make. `bounce` has at least bounce_bytes() bytes and is aligned to
  // kBlockBytes.
  // REQUIRES: !is_finished()
  Piece next(MutableByteView bounce);

  // Records how many bytes the transfer of next() returned, which may be fewer than requested.
  void took(size_t got_bytes);

 private:
  uint64_t at_bytes() const { return read_.offset_bytes + done_bytes_; }
  MutableByteView rest() const { return read_.out.subspan(done_bytes_); }

  Read read_;
  Piece piece_;
  size_t done_bytes_ = 0;
  bool is_bounced_ = false;
  bool is_finished_ = false;
};

}  // namespace millrace::io
