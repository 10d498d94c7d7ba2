#include "format/parquet/values.h"

#include <algorithm>
#include <cstring>

#include "format/parquet/delta.h"
#include "format/parquet/hybrid.h"

namespace millrace::format::parquet {
namespace {

Error too_few(size_t found, size_t count, size_t wanted) {
  return fail(Errc::kCorrupt, "it has {} bytes, but {} values need {}", found, count, wanted);
}

Status plain_fixed(ByteView bytes, size_t count, size_t width, MutableByteView out) {
  const size_t wanted = count * width;
  if (bytes.size() < wanted) return too_few(bytes.size(), count, wanted);
  if (wanted != 0) std::memcpy(out.data(), bytes.data(), wanted);
  return {};
}

Status plain_views(ByteView bytes, size_t count, std::vector<std::string_view>& out) {
  out.clear();
  if (count > bytes.size() / 4) return too_few(bytes.size(), count, count * 4);
  out.reserve(count);
  const std::string_view text = text_of(bytes);
  size_t at = 0;
  for (size_t i = 0; i < count; ++i) {
    uint32_t length = 0;
    if (text.size() - at < sizeof(length)) return too_few(text.size(), count, at + 4);
    std::memcpy(&length, text.data() + at, sizeof(length));
    at += sizeof(length);
    if (length > text.size() - at) {
      return fail(Errc::kCorrupt, "value {} claims {} bytes, but {} are left", i, length,
                  text.size() - at);
    }
    out.push_back(text.substr(at, length));
    at += length;
  }
  return {};
}

Status split_streams(ByteView bytes, size_t count, size_t width, MutableByteView out) {
  if (bytes.size() < count * width) return too_few(bytes.size(), count, count * width);
  for (size_t stream = 0; stream < width; ++stream) {
    const std::byte* in = bytes.data() + stream * count;
    std::byte* place = out.data() + stream;
    for (size_t i = 0; i < count; ++i) place[i * width] = in[i];
  }
  return {};
}

template <typename T>
void gather_as(std::span<const uint32_t> indexes, const std::byte* dictionary, std::byte* out) {
  for (size_t i = 0; i < indexes.size(); ++i) {
    std::memcpy(out + i * sizeof(T), dictionary + indexes[i] * sizeof(T), sizeof(T));
  }
}

bool is_dictionary(Encoding encoding) {
  return encoding == Encoding::kRleDictionary || encoding == Encoding::kPlainDictionary;
}

}  // namespace

std::string_view encoding_name(Encoding encoding) {
  switch (encoding) {
    case Encoding::kPlain:
      return "PLAIN";
    case Encoding::kPlainDictionary:
      return "PLAIN_DICTIONARY";
    case Encoding::kRle:
      return "RLE";
    case Encoding::kBitPacked:
      return "BIT_PACKED";
    case Encoding::kDeltaBinaryPacked:
      return "DELTA_BINARY_PACKED";
    case Encoding::kDeltaLengthByteArray:
      return "DELTA_LENGTH_BYTE_ARRAY";
    case Encoding::kDeltaByteArray:
      return "DELTA_BYTE_ARRAY";
    case Encoding::kRleDictionary:
      return "RLE_DICTIONARY";
    case Encoding::kByteStreamSplit:
      return "BYTE_STREAM_SPLIT";
  }
  return "unknown";
}

Error ValueDecoder::unsupported(Encoding encoding) const {
  return fail(Errc::kUnsupported,
              "its values have the encoding {} ({}), which does not fit its type or is unknown; "
              "write it again with PLAIN or dictionary encoding",
              encoding_name(encoding), static_cast<int32_t>(encoding));
}

Status ValueDecoder::set_dictionary(ByteView page, Encoding encoding, uint64_t count) {
  if (encoding != Encoding::kPlain && encoding != Encoding::kPlainDictionary) {
    return unsupported(encoding);
  }
  // A boolean has one byte in memory, but a bit in the file.
  if (column_.physical == PhysicalType::kBoolean) return unsupported(Encoding::kRleDictionary);
  dictionary_count_ = static_cast<size_t>(count);
  if (column_.file_bytes == 0) return plain_views(page, dictionary_count_, dictionary_views_);
  if (page.size() / column_.file_bytes < count) {
    return too_few(page.size(), dictionary_count_, dictionary_count_ * column_.file_bytes);
  }
  dictionary_.resize(dictionary_count_ * column_.file_bytes);
  return plain_fixed(page, dictionary_count_, column_.file_bytes, dictionary_);
}

Status ValueDecoder::decode_indexes(ByteView bytes, size_t count) {
  scratch_.indexes.resize(count);
  if (count == 0) return {};
  if (bytes.empty()) return too_few(0, count, 1);
  const int bits = std::to_integer<int>(bytes[0]);
  RETURN_IF_ERROR(decode_hybrid(bytes.subspan(1), bits, scratch_.indexes));
  uint32_t largest = 0;  // not std::max_element, which is not vectorized
  for (const uint32_t index : scratch_.indexes) largest = std::max(largest, index);
  if (largest < dictionary_count_) return {};
  return fail(Errc::kCorrupt, "it uses entry {} of a dictionary of {}", largest, dictionary_count_);
}

Status ValueDecoder::gather(size_t count, MutableByteView out) const {
  const std::span<const uint32_t> indexes(scratch_.indexes.data(), count);
  const size_t width = column_.file_bytes;
  if (width == 4) {
    gather_as<uint32_t>(indexes, dictionary_.data(), out.data());
  } else if (width == 8) {
    gather_as<uint64_t>(indexes, dictionary_.data(), out.data());
  } else {
    for (size_t i = 0; i < count; ++i) {
      std::memcpy(out.data() + i * width, dictionary_.data() + indexes[i] * width, width);
    }
  }
  return {};
}

Status ValueDecoder::decode_booleans(Encoding encoding, ByteView bytes, size_t count,
                                     MutableByteView out) {
  if (encoding == Encoding::kRle) {
    if (bytes.size() < 4) return too_few(bytes.size(), count, 4);
    scratch_.indexes.resize(count);
    RETURN_IF_ERROR(decode_hybrid(bytes.subspan(4), 1, scratch_.indexes));
    for (size_t i = 0; i < count; ++i) out[i] = static_cast<std::byte>(scratch_.indexes[i]);
    return {};
  }
  if (encoding != Encoding::kPlain) return unsupported(encoding);
  if (bytes.size() < (count + 7) / 8) return too_few(bytes.size(), count, (count + 7) / 8);
  for (size_t i = 0; i < count; ++i) out[i] = bytes[i / 8] >> (i % 8) & std::byte{1};
  return {};
}

Status ValueDecoder::decode_deltas(ByteView bytes, size_t count, MutableByteView out) {
  ASSIGN_OR_RETURN(const Deltas deltas, parquet::decode_deltas(bytes, count));
  for (size_t i = 0; i < count; ++i) {
    std::memcpy(out.data() + i * column_.file_bytes, &deltas.values[i], column_.file_bytes);
  }
  return {};
}

Status ValueDecoder::decode_fixed(Encoding encoding, ByteView bytes, size_t count,
                                  MutableByteView out) {
  if (column_.physical == PhysicalType::kBoolean) {
    return decode_booleans(encoding, bytes, count, out);
  }
  if (is_dictionary(encoding)) {
    RETURN_IF_ERROR(decode_indexes(bytes, count));
    return gather(count, out);
  }
  const bool is_integer =
      column_.physical == PhysicalType::kInt32 || column_.physical == PhysicalType::kInt64;
  switch (encoding) {
    case Encoding::kPlain:
      return plain_fixed(bytes, count, column_.file_bytes, out);
    case Encoding::kByteStreamSplit:
      return split_streams(bytes, count, column_.file_bytes, out);
    case Encoding::kDeltaBinaryPacked:
      if (is_integer) return decode_deltas(bytes, count, out);
      break;
    case Encoding::kDeltaByteArray: {
      if (is_integer || column_.is_float()) break;
      RETURN_IF_ERROR(delta_bytes(bytes, count));
      for (size_t i = 0; i < count; ++i) {
        if (scratch_.views[i].size() != column_.file_bytes) {
          return fail(Errc::kCorrupt, "value {} has {} bytes instead of {}", i,
                      scratch_.views[i].size(), column_.file_bytes);
        }
        std::memcpy(out.data() + i * column_.file_bytes, scratch_.views[i].data(),
                    column_.file_bytes);
      }
      return {};
    }
    default:
      break;
  }
  return unsupported(encoding);
}

// All lengths, then all bytes.
Status ValueDecoder::delta_lengths(ByteView bytes, size_t count) {
  ASSIGN_OR_RETURN(const Deltas lengths, parquet::decode_deltas(bytes, count));
  const std::string_view text = text_of(bytes).substr(lengths.size_bytes);
  scratch_.views.clear();
  size_t at = 0;
  for (const int64_t length : lengths.values) {
    if (length < 0 || static_cast<uint64_t>(length) > text.size() - at) {
      return fail(Errc::kCorrupt, "value {} claims {} bytes, but {} are left",
                  scratch_.views.size(), length, text.size() - at);
    }
    scratch_.views.push_back(text.substr(at, static_cast<size_t>(length)));
    at += static_cast<size_t>(length);
  }
  return {};
}

// Each value begins with a part of the one before it.
Status ValueDecoder::delta_bytes(ByteView bytes, size_t count) {
  ASSIGN_OR_RETURN(const Deltas prefixes, parquet::decode_deltas(bytes, count));
  RETURN_IF_ERROR(delta_lengths(bytes.subspan(prefixes.size_bytes), count));
  uint64_t total = 0;
  uint64_t before = 0;
  for (size_t i = 0; i < count; ++i) {
    const int64_t prefix = prefixes.values[i];
    if (prefix < 0 || static_cast<uint64_t>(prefix) > before) {
      return fail(Errc::kCorrupt, "value {} shares {} bytes with one of {}", i, prefix, before);
    }
    before = static_cast<uint64_t>(prefix) + scratch_.views[i].size();
    total += before;
    if (total > uint64_t{1} << 31) return fail(Errc::kCorrupt, "it has more than 2 GiB of values");
  }
  joined_.clear();
  joined_.reserve(static_cast<size_t>(total));
  size_t last = 0;
  for (size_t i = 0; i < count; ++i) {
    const size_t begin = joined_.size();
    joined_.append(joined_, last, static_cast<size_t>(prefixes.values[i]));
    joined_ += scratch_.views[i];
    scratch_.views[i] = std::string_view(joined_).substr(begin);
    last = begin;
  }
  return {};
}

Result<std::span<const std::string_view>> ValueDecoder::decode_bytes(Encoding encoding,
                                                                     ByteView bytes, size_t count) {
  if (is_dictionary(encoding)) {
    RETURN_IF_ERROR(decode_indexes(bytes, count));
    scratch_.views.resize(count);
    for (size_t i = 0; i < count; ++i) scratch_.views[i] = dictionary_views_[scratch_.indexes[i]];
  } else if (encoding == Encoding::kPlain) {
    RETURN_IF_ERROR(plain_views(bytes, count, scratch_.views));
  } else if (encoding == Encoding::kDeltaLengthByteArray) {
    RETURN_IF_ERROR(delta_lengths(bytes, count));
  } else if (encoding == Encoding::kDeltaByteArray) {
    RETURN_IF_ERROR(delta_bytes(bytes, count));
  } else {
    return unsupported(encoding);
  }
  return std::span<const std::string_view>(scratch_.views);
}

}  // namespace millrace::format::parquet
