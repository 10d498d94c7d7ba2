// lz4: the block format of LZ4, without its frames, by liblz4 (part `lz4`).
//
// Decompressing does not trust its input: it never reads or writes outside of the two ranges. One
// kind of damage passes, a match at distance 0: what it yields is arbitrary, and the checksum of
// the member is wrong.
#pragma once

#include <cstddef>

#include "base/base.h"
#include "base/result.h"

namespace millrace::store {

// Fails, with the next step, if this build has no lz4. Then the functions below do nothing.
Status check_lz4();

// Returns the length in `out`, or 0 if it does not fit. REQUIRES: in.size() < 2^30
size_t lz4_compress(ByteView in, MutableByteView out);

// Whether `in` decompresses to exactly out.size() bytes. REQUIRES: both ranges are below 2^31 bytes
bool lz4_decompress(ByteView in, MutableByteView out);

}  // namespace millrace::store
