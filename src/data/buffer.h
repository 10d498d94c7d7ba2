// Buffer: a reusable, growing read buffer. Its bytes are not initialized.
#pragma once

#include <memory>

#include "base/base.h"

namespace millrace::data {

class Buffer {
 public:
  // Page-aligned room for `size_bytes`. Earlier contents may be lost.
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
