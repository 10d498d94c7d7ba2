#include "base/io/inflate.h"

namespace millrace {
namespace {

Error no_inflate() {
  return fail(Errc::kUnsupported,
              "this build cannot decompress deflate; install zlib (zlib1g-dev) and build again, or "
              "store the data without gzip (for npz: numpy.savez instead of savez_compressed)");
}

}  // namespace

Status inflate_into(ByteView, MutableByteView) { return no_inflate(); }
Status inflate_zlib_into(ByteView, MutableByteView) { return no_inflate(); }
Status inflate_gzip_into(ByteView, MutableByteView) { return no_inflate(); }

}  // namespace millrace
