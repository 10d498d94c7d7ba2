// FreeExtents: the free parts of a file, and the best one for a given size.
//
// It takes the smallest free part that is large enough or, if there is none, the end of the file.
// Parts are not freed one by one: reset() declares what is in use, which also joins adjacent free
// parts.
#pragma once

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

namespace millrace::loader {

struct FileExtent {
  uint64_t offset_bytes = 0;
  uint64_t size_bytes = 0;
};

class FreeExtents {
 public:
  static constexpr uint64_t kAlignBytes = 64;

  // Where `size_bytes` can be written. REQUIRES: size_bytes < 2^62
  uint64_t take(uint64_t size_bytes);

  // Everything outside of `used` becomes free. The file ends after the last used part.
  void reset(std::vector<FileExtent> used);

  uint64_t end_bytes() const { return end_bytes_; }

 private:
  std::set<std::pair<uint64_t, uint64_t>> free_;  // size, offset
  uint64_t end_bytes_ = 0;
};

}  // namespace millrace::loader
