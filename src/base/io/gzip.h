// gzip: gzip streams (RFC 1952), piece by piece, and CRC-32, with zlib. Whole buffers: inflate.h.
//
// zlib is optional. Without it (gzip_off.cc), everything except zip_crc32() fails with an error
// that says what to install.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/base.h"
#include "base/result.h"

namespace millrace {

// Writes one gzip member: header, deflated bytes, checksum.
class GzipWriter {
 public:
  // Level 1 is fast, 9 is small.
  static Result<std::unique_ptr<GzipWriter>> create(int level);
  // Only the deflated bytes, without header and checksum, as in zip files.
  static Result<std::unique_ptr<GzipWriter>> create_raw(int level);
  virtual ~GzipWriter() = default;

  // Compresses `text` and appends the output that is ready to `out`.
  virtual Status append(std::string_view text, std::string& out) = 0;

  // Appends the end of the member.
  virtual Status finish(std::string& out) = 0;
};

class GzipReader {
 public:
  static Result<std::unique_ptr<GzipReader>> create();
  virtual ~GzipReader() = default;

  struct Step {
    size_t taken = 0;  // bytes of the input
    size_t made = 0;   // bytes of the output
  };

  // Inflates as much as fits. A stream may have several members; the checksum of each is checked.
  // After an error, the reader must not be used.
  virtual Result<Step> inflate(ByteView input, MutableByteView output) = 0;

  // True if the input so far ends with a complete member, so that the stream may end here.
  virtual bool between_members() const = 0;
};

// CRC-32 as used by zip, gzip and PNG (not crc32c). With the checksum of preceding bytes as
// `before`, the checksum of both together.
uint32_t zip_crc32(ByteView bytes, uint32_t before = 0);

}  // namespace millrace
