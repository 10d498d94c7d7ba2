#include "loader/exchange/free_extents.h"

#include <algorithm>

namespace millrace::loader {
namespace {

uint64_t aligned(uint64_t bytes) {
  return (bytes + FreeExtents::kAlignBytes - 1) / FreeExtents::kAlignBytes *
         FreeExtents::kAlignBytes;
}

}  // namespace

uint64_t FreeExtents::take(uint64_t size_bytes) {
  const uint64_t needed = aligned(std::max<uint64_t>(size_bytes, 1));
  const auto found = free_.lower_bound({needed, 0});
  if (found == free_.end()) {
    const uint64_t offset = end_bytes_;
    end_bytes_ += needed;
    return offset;
  }
  const auto [size, offset] = *found;
  free_.erase(found);
  if (size > needed) free_.emplace(size - needed, offset + needed);
  return offset;
}

void FreeExtents::reset(std::vector<FileExtent> used) {
  std::ranges::sort(used, {}, &FileExtent::offset_bytes);
  free_.clear();
  end_bytes_ = 0;
  for (const FileExtent& place : used) {
    if (place.offset_bytes > end_bytes_) {
      free_.emplace(place.offset_bytes - end_bytes_, end_bytes_);
    }
    const uint64_t size = aligned(std::max<uint64_t>(place.size_bytes, 1));
    end_bytes_ = std::max(end_bytes_, place.offset_bytes + size);
  }
}

}  // namespace millrace::loader
