// SparseWriter: writes the bytes of a new file from its start. Long runs of zeros become holes, so
// a sparse file that was packed is sparse again. Not thread-safe.
#pragma once

#include <cstdint>

#include "base/base.h"
#include "base/io/file.h"
#include "base/result.h"

namespace millrace::store {

class SparseWriter {
 public:
  // The file is empty, and must live longer.
  explicit SparseWriter(const File& file) : file_(file) {}

  // Appends them.
  Status add(ByteView bytes);

  // On return, the file has its full length.
  Status finish() const;

 private:
  const File& file_;
  uint64_t end_bytes_ = 0;
  bool ends_in_hole_ = false;
};

}  // namespace millrace::store
