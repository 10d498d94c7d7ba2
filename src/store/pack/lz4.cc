#include "store/pack/lz4.h"

#include <lz4.h>

namespace millrace::store {

Status check_lz4() { return {}; }

size_t lz4_compress(ByteView in, MutableByteView out) {
  const int length = LZ4_compress_default(
      reinterpret_cast<const char*>(in.data()), reinterpret_cast<char*>(out.data()),
      static_cast<int>(in.size()), static_cast<int>(out.size()));
  return static_cast<size_t>(length);
}

bool lz4_decompress(ByteView in, MutableByteView out) {
  const int length = LZ4_decompress_safe(reinterpret_cast<const char*>(in.data()),
                                         reinterpret_cast<char*>(out.data()),
                                         static_cast<int>(in.size()), static_cast<int>(out.size()));
  return length >= 0 && static_cast<size_t>(length) == out.size();
}

}  // namespace millrace::store
