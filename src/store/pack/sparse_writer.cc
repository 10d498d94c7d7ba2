#include "store/pack/sparse_writer.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace millrace::store {
namespace {

// A run of zeros is looked for in aligned blocks of this size: holes of a page would cut a file
// into many extents.
constexpr size_t kHoleBytes = size_t{64} << 10;

// Most blocks differ in their first bytes, so this costs ordinary files nothing.
bool is_zero(ByteView bytes) {
  return bytes.front() == std::byte{0} &&
         std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0;
}

}  // namespace

Status SparseWriter::add(ByteView bytes) {
  while (!bytes.empty()) {
    const auto block = [&](size_t at) {
      const size_t left = kHoleBytes - static_cast<size_t>((end_bytes_ + at) % kHoleBytes);
      return bytes.subspan(at, std::min(left, bytes.size() - at));
    };
    size_t size = block(0).size();
    ends_in_hole_ = is_zero(block(0));
    while (size < bytes.size() && is_zero(block(size)) == ends_in_hole_) size += block(size).size();
    if (!ends_in_hole_) RETURN_IF_ERROR(file_.write_at(end_bytes_, bytes.first(size)));
    end_bytes_ += size;
    bytes = bytes.subspan(size);
  }
  return {};
}

Status SparseWriter::finish() const {
  if (!ends_in_hole_ || ::ftruncate(file_.fd(), static_cast<off_t>(end_bytes_)) == 0) return {};
  return fail_os(errno, "cannot set the length");
}

}  // namespace millrace::store
