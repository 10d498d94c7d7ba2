// codec: compresses and decompresses pages: none, snappy, gzip, zstd.
//
// The only place in format that includes zstd. gzip needs zlib (build part `gzip`).
#pragma once

#include <string>
#include <string_view>

#include "base/base.h"
#include "base/result.h"
#include "format/parquet/metadata.h"

namespace millrace::format::parquet {

std::string_view codec_name(Codec codec);  // "zstd"; "unknown" if it is
// The error lists the known ones.
Result<Codec> codec_named(std::string_view name);

// Fails unless the page yields exactly out.size() bytes.
Status decompress(Codec codec, ByteView page, MutableByteView out);

// Appends to `out`. Fails for a codec other than none, snappy, gzip and zstd.
Status compress(Codec codec, ByteView page, std::string& out);

}  // namespace millrace::format::parquet
