#include "data/buffer.h"

#include <algorithm>
#include <cstdlib>
#include <new>

namespace millrace::data {
namespace {

constexpr size_t kPageBytes = 4096;

}  // namespace

void Buffer::Free::operator()(std::byte* bytes) const { std::free(bytes); }

MutableByteView Buffer::room(size_t size_bytes) {
  if (size_bytes > capacity_bytes_) {
    // Grow by at least half, so that slowly growing samples do not reallocate each time.
    const size_t wanted = std::max(size_bytes, capacity_bytes_ + capacity_bytes_ / 2);
    const size_t rounded = (wanted + kPageBytes - 1) / kPageBytes * kPageBytes;
    bytes_.reset();
    capacity_bytes_ = 0;
    bytes_.reset(static_cast<std::byte*>(std::aligned_alloc(kPageBytes, rounded)));
    if (!bytes_) throw std::bad_alloc();
    capacity_bytes_ = rounded;
  }
  return {bytes_.get(), size_bytes};
}

}  // namespace millrace::data
