// zip: the members of a zip file in memory, as numpy.savez writes it; large ones too (zip64).
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
  uint32_t crc32 = 0;       // of the unpacked bytes
  ByteView packed;          // as they lie in the file
  uint64_t size_bytes = 0;  // unpacked; no more than deflate can make of `packed`
};

// Views into `file`. All members lie in the file without overlap, or it is refused.
Result<std::vector<ZipMember>> list_zip(ByteView file);

// Makes a zip file of stored members, piece by piece.
class ZipBuilder {
 public:
  // What to put into the file before the member's bytes, which follow as they are.
  // REQUIRES: called in the order in which the members are written, from byte 0 on.
  std::string head(std::string_view name, uint64_t size_bytes, uint32_t crc32);
  // What ends the file.
  std::string tail() const;

 private:
  std::string directory_;
  uint64_t at_ = 0;
  uint64_t count_ = 0;
};

}  // namespace millrace::format
