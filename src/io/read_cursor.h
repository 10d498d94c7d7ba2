// ReadCursor: the transfers that one read is made of, whoever makes them.
//
//   ReadCursor cursor({.offset_bytes = at, .out = out, .is_direct = true});
//   while (!cursor.is_finished()) cursor.took(pread_of(cursor.next(bounce)));
//   cursor.done_bytes();
//
// It knows two things that every engine must get right once. Direct transfers start, end and lie at
// multiples of kBlockBytes: what does not is read into a bounce buffer and copied from there. And a
// short transfer is not yet the end of the file: the kernel gives what it had before a bad block as
// a short read, and the error only to the next one. Such a read ends where a block does; one that
// ends elsewhere has met the end of the file, and needs no further call to know it.
#pragma once

#include <cstdint>

#include "base/base.h"
#include "io/aligned_memory.h"

namespace millrace::io {

// Whether a transfer that was shorter than asked may have been cut by something else than the end
// of the file, which it reached up to `end_bytes`. Multiples of 512: the smallest block there is.
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

  // The most that is bounced at once.
  static constexpr size_t kBounceBytesMax = size_t{1} << 20;

  explicit ReadCursor(const Read& read) : read_(read), is_finished_(read.out.empty()) {}

  bool is_finished() const { return is_finished_; }
  size_t done_bytes() const { return done_bytes_; }

  // The bytes of bounce buffer that next() asks for; 0 where it needs none.
  size_t bounce_bytes() const;

  // What to transfer now. `bounce` has at least bounce_bytes(), at a multiple of kBlockBytes.
  // REQUIRES: !is_finished()
  Piece next(MutableByteView bounce);

  // How many bytes the transfer of next() gave; less than asked where the file ends, or anyhow.
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
