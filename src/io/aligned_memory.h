// AlignedMemory: bytes at the start of a page, as direct reads want them, that grow when asked.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>

#include "base/base.h"

namespace millrace::io {

// What offsets, lengths and addresses of direct transfers are multiples of. Devices ask for 512 or
// 4096; no common one asks for more.
constexpr size_t kBlockBytes = 4096;

class AlignedMemory {
 public:
  // The first `size_bytes`; what was there is lost where it had to grow. A multiple of kBlockBytes
  // is kept.
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
