#include "format/parquet/codec.h"

#include <zstd.h>

#include <cstring>
#include <memory>

#include "base/io/gzip.h"
#include "base/io/inflate.h"
#include "base/text/text.h"
#include "format/parquet/snappy.h"

namespace millrace::format::parquet {
namespace {

constexpr int kGzipLevel = 4;
constexpr int kZstdLevel = 1;

// One per thread: making a context costs more than a small page.
ZSTD_DCtx* zstd_decompressor() {
  struct Free {
    void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
  };
  thread_local const std::unique_ptr<ZSTD_DCtx, Free> context(ZSTD_createDCtx());
  return context.get();
}

ZSTD_CCtx* zstd_compressor() {
  struct Free {
    void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
  };
  thread_local const std::unique_ptr<ZSTD_CCtx, Free> context(ZSTD_createCCtx());
  return context.get();
}

Error wrong_length(size_t packed, size_t found, size_t wanted) {
  return fail(Errc::kCorrupt, "its {} bytes decompress to {} bytes, but it claims {}", packed,
              found, wanted);
}

Status zstd_decompress(ByteView page, MutableByteView out) {
  const size_t length =
      ZSTD_decompressDCtx(zstd_decompressor(), out.data(), out.size(), page.data(), page.size());
  if (ZSTD_isError(length) != 0) {
    return fail(Errc::kCorrupt, "its {} bytes cannot be decompressed: {}", page.size(),
                ZSTD_getErrorName(length));
  }
  if (length == out.size()) return {};
  return wrong_length(page.size(), length, out.size());
}

Status zstd_compress(ByteView page, std::string& out) {
  const size_t before = out.size();
  const size_t room = ZSTD_compressBound(page.size());
  out.resize(before + room);
  const size_t length = ZSTD_compressCCtx(zstd_compressor(), out.data() + before, room, page.data(),
                                          page.size(), kZstdLevel);
  if (ZSTD_isError(length) != 0) {
    return fail(Errc::kExhausted, "zstd cannot compress {} bytes: {}", page.size(),
                ZSTD_getErrorName(length));
  }
  out.resize(before + length);
  return {};
}

Status gzip_compress(ByteView page, std::string& out) {
  ASSIGN_OR_RETURN(const auto writer, GzipWriter::create(kGzipLevel));
  RETURN_IF_ERROR(writer->append(text_of(page), out));
  return writer->finish(out);
}

}  // namespace

std::string_view codec_name(Codec codec) {
  switch (codec) {
    case Codec::kNone:
      return "none";
    case Codec::kSnappy:
      return "snappy";
    case Codec::kGzip:
      return "gzip";
    case Codec::kLzo:
      return "lzo";
    case Codec::kBrotli:
      return "brotli";
    case Codec::kLz4:
    case Codec::kLz4Raw:
      return "lz4";
    case Codec::kZstd:
      return "zstd";
  }
  return "unknown";
}

Result<Codec> codec_named(std::string_view name) {
  for (const Codec codec : {Codec::kNone, Codec::kSnappy, Codec::kGzip, Codec::kZstd}) {
    if (name == codec_name(codec)) return codec;
  }
  return fail(Errc::kInvalidArgument,
              "unknown compression '{}' for Parquet; choose none, snappy, gzip or zstd",
              printable(name));
}

Status decompress(Codec codec, ByteView page, MutableByteView out) {
  switch (codec) {
    case Codec::kNone:
      if (page.size() != out.size()) return wrong_length(page.size(), page.size(), out.size());
      if (!page.empty()) std::memcpy(out.data(), page.data(), page.size());
      return {};
    case Codec::kSnappy:
      return snappy_decompress(page, out);
    case Codec::kGzip:
      return inflate_gzip_into(page, out);
    case Codec::kZstd:
      return zstd_decompress(page, out);
    default:
      return fail(Errc::kUnsupported,
                  "it is compressed with {} (codec {}); write it again with zstd, snappy, gzip or "
                  "none",
                  codec_name(codec), static_cast<int32_t>(codec));
  }
}

Status compress(Codec codec, ByteView page, std::string& out) {
  switch (codec) {
    case Codec::kNone:
      out += text_of(page);
      return {};
    case Codec::kSnappy:
      snappy_compress(page, out);
      return {};
    case Codec::kGzip:
      return gzip_compress(page, out);
    case Codec::kZstd:
      return zstd_compress(page, out);
    default:
      return fail(Errc::kUnsupported, "cannot compress with {}; choose none, snappy, gzip or zstd",
                  codec_name(codec));
  }
}

}  // namespace millrace::format::parquet
