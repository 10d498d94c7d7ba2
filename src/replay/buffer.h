// Buffer: memory of any size for a thread's reads and writes, at a bounded cost.
//
// A recorded call may have moved gigabytes, and a job may have thousands of threads. A large buffer
// is therefore a small piece of memory, mapped again and again: reads overwrite each other, and
// writes repeat the same pseudo-random bytes. Aligned to pages, for O_DIRECT.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.h"

namespace millrace::replay {

class Buffer {
 public:
  struct Options {
    uint64_t size_bytes = 0;
    uint64_t seed = 0;
    bool random = false;  // filled with pseudo-random bytes; otherwise zeros
  };
  static Result<Buffer> create(const Options& options);

  Buffer() = default;
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();

  std::byte* data() const { return data_; }
  size_t size_bytes() const { return size_; }

  static constexpr size_t kMemoryMax = size_t{8} << 20;  // larger buffers repeat

 private:
  Buffer(std::byte* data, size_t size) : data_(data), size_(size) {}

  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace millrace::replay
