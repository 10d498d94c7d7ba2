#include "format/inflate.h"

#include <zlib.h>

#include <algorithm>
#include <limits>

namespace millrace::format {
namespace {

constexpr size_t kPieceMax = std::numeric_limits<uInt>::max();

struct EndInflate {
  z_stream* stream;
  ~EndInflate() { inflateEnd(stream); }
};

}  // namespace

Status inflate_into(ByteView deflated, MutableByteView out) {
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) {
    return fail(Errc::kExhausted, "zlib could not be started: no memory is left");
  }
  const EndInflate end{&stream};
  size_t in_left = deflated.size();
  size_t out_left = out.size();
  // zlib takes lengths of 32 bits; and wants some place to write to, even for nothing.
  std::byte nowhere{};
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(deflated.data()));
  stream.next_out = reinterpret_cast<Bytef*>(out.empty() ? &nowhere : out.data());
  int code = Z_OK;
  while (code == Z_OK) {
    const auto in_piece = static_cast<uInt>(std::min(in_left, kPieceMax));
    const auto out_piece = static_cast<uInt>(std::min(out_left, kPieceMax));
    stream.avail_in = in_piece;
    stream.avail_out = out_piece;
    code = inflate(&stream, Z_NO_FLUSH);
    in_left -= in_piece - stream.avail_in;
    out_left -= out_piece - stream.avail_out;
  }
  if (code != Z_STREAM_END || out_left != 0 || in_left != 0) {
    return fail(Errc::kCorrupt,
                "the deflated bytes end after {} of {} bytes, with {} of {} of them unused",
                out.size() - out_left, out.size(), in_left, deflated.size());
  }
  return {};
}

uint32_t zip_crc32(ByteView bytes) {
  return static_cast<uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

}  // namespace millrace::format
