// zip: reads and writes zip files in memory, as numpy.savez writes them, including zip64.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/base.h"
#include "base/result.h"

namespace millrace::format {

struct ZipMember {
  std::string_view name;
  bool is_deflated = false;
  uint32_t crc32 = 0;       // of the uncompressed bytes
  ByteView packed;          // the bytes in the file
  uint64_t size_bytes = 0;  // uncompressed; at most what deflate can make of `packed`
};

// Views into `file`. Fails if members overlap or extend beyond the file.
Result<std::vector<ZipMember>> list_zip(ByteView file);

// Builds a zip file of stored or deflated members, piece by piece.
class ZipBuilder {
 public:
  // The bytes to write before those of the member, which follow unchanged.
  // REQUIRES: called in the order in which the members are written, from byte 0 on.
  std::string head(std::string_view name, uint64_t size_bytes, uint32_t crc32);
  // The head of a member whose `packed_bytes` are deflated. It is equally long for all of them.
  std::string deflated_head(std::string_view name, uint64_t size_bytes, uint64_t packed_bytes,
                            uint32_t crc32);
  // The bytes that end the file.
  std::string tail() const;

 private:
  struct Sizes {
    uint64_t size_bytes = 0;
    uint64_t packed_bytes = 0;
    bool is_deflated = false;
    bool is_64 = false;  // the sizes are 64-bit numbers behind the name
  };
  static std::string common_head(const Sizes& sizes, uint32_t crc32, size_t name_bytes,
                                 size_t extra_bytes);
  std::string add(std::string_view name, const Sizes& sizes, uint32_t crc32);

  std::string directory_;
  uint64_t at_ = 0;
  uint64_t count_ = 0;
};

}  // namespace millrace::format
