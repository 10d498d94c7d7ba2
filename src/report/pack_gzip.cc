// zlib.h declares inputs as const only when asked.
#define ZLIB_CONST
#include <zlib.h>

#include <limits>

#include "report/pack.h"

namespace millrace::report {
namespace {

constexpr int kGzipWindow = 15 + 16;  // the largest window, gzip's header and not zlib's
// On the most that a page holds (7 MB) level 9 was 1 % smaller than level 6, at twice the time.
constexpr int kLevel = 6;
constexpr int kMemoryLevel = 9;

}  // namespace

Result<Packed> pack(std::string_view text) {
  // zlib counts in 32 bits, and no browser opens such a page.
  if (text.size() > std::numeric_limits<uInt>::max() / 2) {
    return fail(Errc::kInvalidArgument,
                "{} bytes of data are too many for one page; take a part with --from and --until",
                text.size());
  }
  z_stream stream = {};
  if (deflateInit2(&stream, kLevel, Z_DEFLATED, kGzipWindow, kMemoryLevel, Z_DEFAULT_STRATEGY) !=
      Z_OK) {
    return fail(Errc::kExhausted, "zlib could not start to compress: no memory left");
  }
  Packed packed = {.encoding = "gzip", .bytes = {}};
  packed.bytes.resize(deflateBound(&stream, text.size()));
  stream.next_in = reinterpret_cast<const Bytef*>(text.data());
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.bytes.data());
  stream.avail_out = static_cast<uInt>(packed.bytes.size());
  const int outcome = deflate(&stream, Z_FINISH);
  packed.bytes.resize(stream.total_out);
  deflateEnd(&stream);
  if (outcome != Z_STREAM_END) {
    return fail(Errc::kExhausted, "zlib gave up after {} bytes (outcome {})", packed.bytes.size(),
                outcome);
  }
  return packed;
}

}  // namespace millrace::report
