#include "data/buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <new>

namespace millrace::data {
namespace {

constexpr size_t kPageBytes = 4096;
constexpr size_t kHugePageBytes = 2 * 1024 * 1024;

// Null if there is no memory. Large buffers use huge pages if the system has them: both the first
// use and reads at random places cost less.
std::byte* allocate(size_t size_bytes) {
  if (size_bytes < kHugePageBytes) {
    return static_cast<std::byte*>(std::aligned_alloc(kPageBytes, size_bytes));
  }
  // Not aligned_alloc(), which takes multiples of the alignment only.
  void* bytes = nullptr;
  if (posix_memalign(&bytes, kHugePageBytes, size_bytes) != 0) return nullptr;
  // Only whole huge pages: the rest would take memory that nobody asked for.
  const size_t huge_bytes = size_bytes / kHugePageBytes * kHugePageBytes;
  madvise(bytes, huge_bytes, MADV_HUGEPAGE);  // only advice
  return static_cast<std::byte*>(bytes);
}

}  // namespace

void Buffer::Free::operator()(std::byte* bytes) const { std::free(bytes); }

MutableByteView Buffer::room(size_t size_bytes) {
  if (size_bytes > capacity_bytes_) {
    // Grow by at least half, so that slowly growing samples do not reallocate each time.
    const size_t wanted = std::max(size_bytes, capacity_bytes_ + capacity_bytes_ / 2);
    const size_t rounded = (wanted + kPageBytes - 1) / kPageBytes * kPageBytes;
    bytes_.reset();
    capacity_bytes_ = 0;
    bytes_.reset(allocate(rounded));
    if (!bytes_) throw std::bad_alloc();
    capacity_bytes_ = rounded;
  }
  return {bytes_.get(), size_bytes};
}

}  // namespace millrace::data
