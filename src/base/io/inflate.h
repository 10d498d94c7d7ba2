// inflate: decompresses whole buffers of deflate: HDF5 chunks, npz members, Parquet pages.
//
// With libdeflate (part `deflate`), which is two to three times as fast as zlib but cannot work on
// pieces of a stream. Otherwise with zlib (inflate_zlib.cc). Without both (inflate_off.cc), every
// function fails with an error that says what to install. Streams: gzip.h. Thread-safe.
//
// All functions fail unless the input yields exactly out.size() bytes and has none left over.
#pragma once

#include "base/base.h"
#include "base/result.h"

namespace millrace {

// A raw deflate stream (RFC 1951), as in zip.
Status inflate_into(ByteView deflated, MutableByteView out);
// A zlib stream (RFC 1950): deflate with a header and a checksum, which is verified.
Status inflate_zlib_into(ByteView deflated, MutableByteView out);
// A gzip stream (RFC 1952) of one or more members, whose checksums are verified.
Status inflate_gzip_into(ByteView deflated, MutableByteView out);

}  // namespace millrace
