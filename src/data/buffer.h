// Buffer: bytes to read into that grow and are used again, and are not initialized when they grow.
#pragma once

#include <memory>

#include "base/base.h"

namespace millrace::data {

class Buffer {
 public:
  // Room for `size_bytes`; what was in it may be lost. Page-aligned.
  MutableByteView room(size_t size_bytes);
  size_t capacity_bytes() const { return capacity_bytes_; }

 private:
  struct Free {
    void operator()(std::byte* bytes) const;
  };
  std::unique_ptr<std::byte[], Free> bytes_;
  size_t capacity_bytes_ = 0;
};

}  // namespace millrace::data
