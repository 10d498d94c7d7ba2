#include "loader/exchange/local_places.h"

#include <algorithm>

namespace millrace::loader {
namespace {

uint64_t aligned(uint64_t bytes) {
  return (bytes + LocalPlaces::kAlignBytes - 1) / LocalPlaces::kAlignBytes *
         LocalPlaces::kAlignBytes;
}

}  // namespace

uint64_t LocalPlaces::take(uint64_t size_bytes) {
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

void LocalPlaces::reset(std::vector<Place> used) {
  std::ranges::sort(used, {}, &Place::offset_bytes);
  free_.clear();
  end_bytes_ = 0;
  for (const Place& place : used) {
    if (place.offset_bytes > end_bytes_) {
      free_.emplace(place.offset_bytes - end_bytes_, end_bytes_);
    }
    const uint64_t size = aligned(std::max<uint64_t>(place.size_bytes, 1));
    end_bytes_ = std::max(end_bytes_, place.offset_bytes + size);
  }
}

}  // namespace millrace::loader
