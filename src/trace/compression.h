// Compression: zstd at its fastest level, with the working memory kept from call to call.
//
// The one place that includes zstd. Not thread-safe: each thread has its own.
#pragma once

#include <memory>
#include <vector>

#include "base/base.h"
#include "base/result.h"

namespace millrace::trace {

class Compressor {
 public:
  Compressor();
  Compressor(Compressor&&) noexcept;
  ~Compressor();

  // Appends a frame of `bytes` to `out` and returns its length; 0, and nothing appended, where the
  // frame would not be shorter than `limit_bytes`.
  size_t append(ByteView bytes, size_t limit_bytes, std::vector<std::byte>& out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

class Decompressor {
 public:
  Decompressor();
  Decompressor(Decompressor&&) noexcept;
  ~Decompressor();

  // Fails unless the frame holds exactly as many bytes as `out`.
  Status decompress(ByteView frame, MutableByteView out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace::trace
