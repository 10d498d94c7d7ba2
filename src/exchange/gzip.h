// Gzip: compressed streams as other tools write and read them (RFC 1952), by zlib.
//
// An optional part: without it both create() functions fail and say how to have it (gzip_off.cc).
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "base/base.h"
#include "base/result.h"

namespace millrace::exchange {

// One member: header, deflated bytes, checksum.
class GzipWriter {
 public:
  static Result<std::unique_ptr<GzipWriter>> create();
  virtual ~GzipWriter() = default;

  // Adds `text`; appends to `out` what is compressed so far.
  virtual Status append(std::string_view text, std::string& out) = 0;

  // Appends the end of the member.
  virtual Status finish(std::string& out) = 0;
};

class GzipReader {
 public:
  static Result<std::unique_ptr<GzipReader>> create();
  virtual ~GzipReader() = default;

  struct Step {
    size_t taken = 0;  // of the input
    size_t made = 0;   // of the output
  };

  // Inflates what fits. Members may follow each other; each one's checksum is checked. Fails at
  // bytes that are not gzip, after which the reader is of no further use.
  virtual Result<Step> inflate(ByteView input, MutableByteView output) = 0;

  // Whether the input so far ended with a whole member, so that it may end here.
  virtual bool between_members() const = 0;
};

}  // namespace millrace::exchange
