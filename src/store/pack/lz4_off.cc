#include "store/pack/lz4.h"

namespace millrace::store {

Status check_lz4() {
  return fail(
      Errc::kUnsupported,
      "this build cannot read or write lz4; install liblz4-dev and build again, or pack with "
      "--codec zstd");
}

size_t lz4_compress(ByteView, MutableByteView) { return 0; }

bool lz4_decompress(ByteView, MutableByteView) { return false; }

}  // namespace millrace::store
