#define ZLIB_CONST  // makes zlib.h declare its inputs as const
#include <zlib.h>

#include <algorithm>
#include <limits>

#include "base/io/inflate.h"

namespace millrace {
namespace {

// zlib counts in 32 bits.
uInt inflate_piece(size_t size_bytes) {
  return static_cast<uInt>(std::min<size_t>(size_bytes, std::numeric_limits<uInt>::max() / 2));
}

class Inflation {
 public:
  Inflation(ByteView deflated, MutableByteView out)
      : deflated_(deflated), out_(out), in_left_(deflated.size()), out_left_(out.size()) {}
  Inflation(const Inflation&) = delete;
  Inflation& operator=(const Inflation&) = delete;
  ~Inflation() {
    if (ready_) inflateEnd(&stream_);
  }

  // `window_bits` tells zlib the kind of stream.
  Status start(int window_bits) {
    if (inflateInit2(&stream_, window_bits) != Z_OK) {
      return fail(Errc::kExhausted, "zlib cannot start decompressing: not enough memory");
    }
    ready_ = true;
    stream_.next_in = reinterpret_cast<const Bytef*>(deflated_.data());
    // zlib needs an output pointer even if there is no output.
    stream_.next_out = reinterpret_cast<Bytef*>(out_.empty() ? &nowhere_ : out_.data());
    return {};
  }

  // Up to the end of a stream. False if it does not end.
  bool inflate_member() {
    int code = Z_OK;
    while (code == Z_OK) {
      const uInt in_piece = inflate_piece(in_left_);
      const uInt out_piece = inflate_piece(out_left_);
      stream_.avail_in = in_piece;
      stream_.avail_out = out_piece;
      code = ::inflate(&stream_, Z_NO_FLUSH);
      in_left_ -= in_piece - stream_.avail_in;
      out_left_ -= out_piece - stream_.avail_out;
    }
    return code == Z_STREAM_END;
  }

  bool start_next_member() { return in_left_ > 0 && inflateReset(&stream_) == Z_OK; }

  Status end(bool is_complete) const {
    if (is_complete && out_left_ == 0 && in_left_ == 0) return {};
    return fail(Errc::kCorrupt,
                "the compressed data yields {} of {} bytes, and {} of its {} bytes are unused",
                out_.size() - out_left_, out_.size(), in_left_, deflated_.size());
  }

 private:
  ByteView deflated_;
  MutableByteView out_;
  size_t in_left_;
  size_t out_left_;
  z_stream stream_ = {};
  bool ready_ = false;
  std::byte nowhere_{};
};

Status inflate_all(ByteView deflated, MutableByteView out, int window_bits) {
  Inflation inflation(deflated, out);
  RETURN_IF_ERROR(inflation.start(window_bits));
  return inflation.end(inflation.inflate_member());
}

}  // namespace

Status inflate_into(ByteView deflated, MutableByteView out) {
  return inflate_all(deflated, out, -MAX_WBITS);
}

Status inflate_zlib_into(ByteView deflated, MutableByteView out) {
  return inflate_all(deflated, out, MAX_WBITS);
}

Status inflate_gzip_into(ByteView deflated, MutableByteView out) {
  Inflation inflation(deflated, out);
  RETURN_IF_ERROR(inflation.start(MAX_WBITS + 16));
  bool is_complete = inflation.inflate_member();
  while (is_complete && inflation.start_next_member()) is_complete = inflation.inflate_member();
  return inflation.end(is_complete);
}

}  // namespace millrace
