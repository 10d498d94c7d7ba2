// FreeExtents: which parts of a file are free, and the best of them for so many bytes.
//
// The smallest free part that is large enough, else the end of the file. Parts are only taken; what
// becomes free is said all at once, by saying what is used: neighbours that are free are then one
// part again.
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

  // All but `used` is free, and the file ends where the last of them does.
  void reset(std::vector<FileExtent> used);

  uint64_t end_bytes() const { return end_bytes_; }

 private:
  std::set<std::pair<uint64_t, uint64_t>> free_;  // size, offset
  uint64_t end_bytes_ = 0;
};

}  // namespace millrace::loader
