// values: the encodings of values in a page: PLAIN, dictionary, RLE (booleans), BYTE_STREAM_SPLIT
// and the delta encodings.
//
// A decoder belongs to one column chunk and keeps its dictionary. All lengths are checked.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/base.h"
#include "base/result.h"
#include "format/parquet/metadata.h"
#include "format/parquet/schema.h"

namespace millrace::format::parquet {

std::string_view encoding_name(Encoding encoding);

// Memory that decoders of one thread use in turn.
struct ValueScratch {
  std::vector<uint32_t> indexes;
  std::vector<std::string_view> views;
};

class ValueDecoder {
 public:
  ValueDecoder(const Column& column, ValueScratch& scratch) : column_(column), scratch_(scratch) {}

  // `page` must live as long as the decoder, unless values have a fixed length.
  Status set_dictionary(ByteView page, Encoding encoding, uint64_t count);

  // Decodes `count` values of file_bytes each to the start of `out`.
  // REQUIRES: a column with values of a fixed length; out.size() >= count * file_bytes
  Status decode_fixed(Encoding encoding, ByteView bytes, size_t count, MutableByteView out);

  // Views of `count` byte arrays. They are valid until the next call, and while `bytes` and the
  // dictionary live. REQUIRES: a column of byte arrays
  Result<std::span<const std::string_view>> decode_bytes(Encoding encoding, ByteView bytes,
                                                         size_t count);

 private:
  Status decode_indexes(ByteView bytes, size_t count);
  Status gather(size_t count, MutableByteView out) const;
  Status decode_booleans(Encoding encoding, ByteView bytes, size_t count, MutableByteView out);
  Status decode_deltas(ByteView bytes, size_t count, MutableByteView out);
  Status delta_lengths(ByteView bytes, size_t count);
  Status delta_bytes(ByteView bytes, size_t count);
  Error unsupported(Encoding encoding) const;

  const Column& column_;
  ValueScratch& scratch_;
  size_t dictionary_count_ = 0;
  std::vector<std::byte> dictionary_;               // values of a fixed length
  std::vector<std::string_view> dictionary_views_;  // byte arrays
  std::string joined_;                              // of DELTA_BYTE_ARRAY
};

}  // namespace millrace::format::parquet
