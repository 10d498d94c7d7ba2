// Compression: zstd at its fastest level, reusing its working memory between calls.
//
// The only place in trace that includes zstd. Not thread-safe: each thread has its own.
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

  // Appends `bytes` as one frame to `out` and returns the frame's length. If it would not be
  // shorter than `limit_bytes`, appends nothing and returns 0.
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

  // Fails unless the frame decompresses to exactly the size of `out`.
  Status decompress(ByteView frame, MutableByteView out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace::trace
