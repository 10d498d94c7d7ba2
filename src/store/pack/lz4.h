// lz4: the block format of LZ4, without its frames.
//
// Our own code, so that every build can read every pack, whatever libraries it was built with. The
// decoder does not trust its input: it never reads or writes outside of the two ranges.
#pragma once

#include <cstddef>

#include "base/base.h"

namespace millrace::store {

// Returns the length in `out`, or 0 if it does not fit. REQUIRES: in.size() < 2^31
size_t lz4_compress(ByteView in, MutableByteView out);

// Whether `in` decompresses to exactly out.size() bytes.
bool lz4_decompress(ByteView in, MutableByteView out);

}  // namespace millrace::store
