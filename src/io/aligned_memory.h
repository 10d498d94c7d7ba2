// AlignedMemory: a page-aligned buffer for direct reads that grows on demand.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>

#include "base/base.h"

namespace millrace::io {

// Offsets, lengths and addresses of direct transfers are multiples of this. Devices need 512 or
// 4096; no common device needs more.
constexpr size_t kBlockBytes = 4096;

class AlignedMemory {
 public:
  // Returns the first `size_bytes`. Growing discards the content. The capacity is a multiple of
  // kBlockBytes.
  MutableByteView room(size_t size_bytes) {
    if (size_bytes > capacity_bytes_) {
      const size_t rounded = (size_bytes + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
      bytes_.reset();
      capacity_bytes_ = 0;
      bytes_.reset(static_cast<std::byte*>(std::aligned_alloc(kBlockBytes, rounded)));
      if (!bytes_) throw std::bad_alloc();
      capacity_bytes_ = rounded;
    }
    return {bytes_.get(), size_bytes};
  }

 private:
  struct Free {
    void operator()(std::byte* bytes) const { std::free(bytes); }
  };
  std::unique_ptr<std::byte[], Free> bytes_;
  size_t capacity_bytes_ = 0;
};

}  // namespace millrace::io
