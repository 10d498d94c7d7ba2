#include "trace/pack/compression.h"

#include <zstd.h>

#include <algorithm>

namespace millrace::trace {

struct Compressor::State {
  ZSTD_CCtx* context = ZSTD_createCCtx();
  State() {
    ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, 1);
    // Readers know the size of a frame, and the block around it has a checksum.
    ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, 0);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { ZSTD_freeCCtx(context); }
};

Compressor::Compressor() : state_(std::make_unique<State>()) {}
Compressor::Compressor(Compressor&&) noexcept = default;
Compressor::~Compressor() = default;

size_t Compressor::append(ByteView bytes, size_t limit_bytes, std::vector<std::byte>& out) {
  const size_t before = out.size();
  const size_t room = ZSTD_compressBound(bytes.size());
  out.resize(before + room);
  const size_t length =
      ZSTD_compress2(state_->context, out.data() + before, room, bytes.data(), bytes.size());
  const bool worth_it = ZSTD_isError(length) == 0 && length < limit_bytes;
  out.resize(before + (worth_it ? length : 0));
  return worth_it ? length : 0;
}

struct Decompressor::State {
  ZSTD_DCtx* context = ZSTD_createDCtx();
  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { ZSTD_freeDCtx(context); }
};

Decompressor::Decompressor() : state_(std::make_unique<State>()) {}
Decompressor::Decompressor(Decompressor&&) noexcept = default;
Decompressor::~Decompressor() = default;

Status Decompressor::decompress(ByteView frame, MutableByteView out) {
  const size_t length =
      ZSTD_decompressDCtx(state_->context, out.data(), out.size(), frame.data(), frame.size());
  if (ZSTD_isError(length) != 0) {
    return fail(Errc::kCorrupt, "cannot decompress {} bytes: {}", frame.size(),
                ZSTD_getErrorName(length));
  }
  if (length != out.size()) {
    return fail(Errc::kCorrupt, "{} bytes decompress to {} bytes, not {}", frame.size(), length,
                out.size());
  }
  return {};
}

}  // namespace millrace::trace
