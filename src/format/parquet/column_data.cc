#include "format/parquet/column_data.h"

#include <algorithm>
#include <cstring>

#include "base/io/gzip.h"
#include "format/parquet/codec.h"
#include "format/parquet/hybrid.h"
#include "format/parquet/values.h"

namespace millrace::format::parquet {
namespace {

// What is allocated at once for the claims of a chunk; more grows with what was decoded.
constexpr uint64_t kTrustedBytes = uint64_t{64} << 20;
constexpr uint64_t kTrustedRatio = 64;

// The parts of a data page.
struct DataPage {
  size_t value_count = 0;  // with nulls
  Encoding encoding{};
  ByteView repetition;
  ByteView definition;
  ByteView values;
};

// The levels of a page.
struct Levels {
  std::vector<uint8_t> items;
  bool is_uniform = false;  // all are items[0]

  Status decode(ByteView stream, uint8_t max, size_t count) {
    items.resize(count);
    ASSIGN_OR_RETURN(is_uniform, decode_levels(stream, bits_for(max), items));
    const size_t looked_at = is_uniform ? 1 : count;
    for (size_t i = 0; i < looked_at; ++i) {
      if (items[i] > max) {
        return fail(Errc::kCorrupt, "a level is {}, but at most {} is possible", items[i], max);
      }
    }
    return {};
  }
  void spread() {
    if (is_uniform) std::fill(items.begin(), items.end(), items[0]);
    is_uniform = false;
  }
};

// NaN in the type of the column if it has one, otherwise 0.
void put_null(std::byte* place, size_t width, data::ElementType type) {
  std::memset(place, 0, width);
  if (type == data::ElementType::kF32) {
    const uint32_t nan = 0x7fc00000;
    std::memcpy(place, &nan, sizeof(nan));
  } else if (type == data::ElementType::kF64) {
    const uint64_t nan = 0x7ff8000000000000;
    std::memcpy(place, &nan, sizeof(nan));
  } else if (type == data::ElementType::kF16) {
    const uint16_t nan = 0x7e00;
    std::memcpy(place, &nan, sizeof(nan));
  }
}

template <typename Wide, typename Narrow>
void narrow_as(std::byte* bytes, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    Wide wide;
    std::memcpy(&wide, bytes + i * sizeof(Wide), sizeof(Wide));
    const auto narrow = static_cast<Narrow>(wide);
    std::memcpy(bytes + i * sizeof(Narrow), &narrow, sizeof(Narrow));
  }
}

// Copies a byte array and returns its end. Short ones are copied as 16 bytes, which is one
// instruction, if both sides have them. REQUIRES: the view fits before `end`.
std::byte* put_bytes(std::string_view view, ByteView page, std::byte* place, const std::byte* end) {
  constexpr size_t kShort = 16;
  const char* const page_end = text_of(page).data() + page.size();
  const bool is_in_page = view.data() >= text_of(page).data() && view.data() + kShort <= page_end;
  if (view.size() <= kShort && is_in_page && end - place >= static_cast<ptrdiff_t>(kShort)) {
    std::memcpy(place, view.data(), kShort);
  } else if (!view.empty()) {
    std::memcpy(place, view.data(), view.size());
  }
  return place + view.size();
}

// Memory that the chunks of a thread use in turn. Memory from the system costs more than decoding a
// page of numbers.
struct Scratch {
  data::Buffer page;
  Levels definition;
  Levels repetition;
  ValueScratch values;

  uint64_t size_bytes() const {
    return page.capacity_bytes() + definition.items.capacity() + repetition.items.capacity() +
           values.indexes.capacity() * sizeof(uint32_t) +
           values.views.capacity() * sizeof(std::string_view);
  }
};

constexpr uint64_t kScratchBytesMax = uint64_t{16} << 20;

class ChunkDecoder {
 public:
  ChunkDecoder(const Column& column, const ColumnChunk& chunk, uint64_t row_count,
               const DecodeLimits& limits, Scratch& scratch)
      : column_(column),
        chunk_(chunk),
        row_count_(row_count),
        limits_(limits),
        values_(column, scratch.values),
        page_memory_(scratch.page),
        definition_(scratch.definition),
        repetition_(scratch.repetition) {}

  Result<ColumnData> decode(ByteView pages) {
    RETURN_IF_ERROR(begin());
    for (size_t index = 0; values_done_ < chunk_.value_count; ++index) {
      if (pages.empty()) {
        return fail(Errc::kCorrupt, "its pages have {} values instead of {}", values_done_,
                    chunk_.value_count);
      }
      const auto taken = decode_page(pages);
      if (!taken.ok()) return Error(taken.error()).within(fmt::format("page {}", index));
      pages = pages.subspan(*taken);
    }
    return finish();
  }

 private:
  Status begin() {
    if (!column_.is_list && chunk_.value_count != row_count_) {
      return fail(Errc::kCorrupt, "it has {} values in {} rows", chunk_.value_count, row_count_);
    }
    if (chunk_.type != column_.physical) {
      return fail(Errc::kCorrupt, "its chunk has another type than its schema");
    }
    const bool has_offsets = column_.is_list || column_.is_bytes();
    const uint64_t width = std::max<uint64_t>(column_.file_bytes, 1);
    const uint64_t per_row = has_offsets ? sizeof(uint64_t) : width;
    if (chunk_.value_count > limits_.chunk_bytes_max / width ||
        row_count_ > limits_.chunk_bytes_max / per_row) {
      return fail(Errc::kUnsupported, "its {} values in {} rows take more than {} bytes",
                  chunk_.value_count, row_count_, limits_.chunk_bytes_max);
    }
    const uint64_t trusted = std::max(kTrustedBytes, chunk_.size_bytes * kTrustedRatio);
    if (!column_.is_bytes()) {
      RETURN_IF_ERROR(make_room(std::min(trusted, chunk_.value_count * width)));
    }
    if (has_offsets) out_.offsets.reserve(std::min(trusted / 8, row_count_ + 1));
    return {};
  }

  // Returns the length of the page with its header.
  Result<size_t> decode_page(ByteView pages) {
    ASSIGN_OR_RETURN(const PageHeader header, parse_page_header(pages));
    const auto packed_bytes = static_cast<size_t>(header.packed_bytes);
    const size_t left = pages.size() - header.header_bytes;
    if (packed_bytes > left) {
      return fail(Errc::kCorrupt, "it claims {} bytes, but its chunk has {} left", packed_bytes,
                  left);
    }
    if (static_cast<uint64_t>(header.plain_bytes) > limits_.page_bytes_max) {
      return fail(Errc::kUnsupported, "it claims {} bytes; at most {} are supported",
                  header.plain_bytes, limits_.page_bytes_max);
    }
    const ByteView body = pages.subspan(header.header_bytes, packed_bytes);
    if (header.crc32 && zip_crc32(body) != *header.crc32) {
      return fail(Errc::kCorrupt, "its {} bytes have the checksum {:08x}, expected {:08x}",
                  body.size(), zip_crc32(body), *header.crc32);
    }
    RETURN_IF_ERROR(decode_body(header, body));
    return header.header_bytes + packed_bytes;
  }

  Status decode_body(const PageHeader& header, ByteView body) {
    switch (header.type) {
      case PageType::kDictionary:
        return decode_dictionary(header, body);
      case PageType::kData:
        return decode_data_v1(header, body);
      case PageType::kDataV2:
        return decode_data_v2(header, body);
      default:
        return {};  // an index page, which nobody writes, or a later kind
    }
  }

  Result<ByteView> plain(const PageHeader& header, ByteView body, data::Buffer& room) {
    if (chunk_.codec == Codec::kNone) return body;
    const MutableByteView out = room.room(static_cast<size_t>(header.plain_bytes));
    RETURN_IF_ERROR(decompress(chunk_.codec, body, out));
    return ByteView(out);
  }

  Status decode_dictionary(const PageHeader& header, ByteView body) {
    ASSIGN_OR_RETURN(const ByteView page, plain(header, body, dictionary_memory_));
    return values_.set_dictionary(page, header.encoding, static_cast<uint64_t>(header.value_count));
  }

  Result<ByteView> take_levels(ByteView& page, Encoding encoding) const {
    if (encoding != Encoding::kRle) {
      return fail(Errc::kUnsupported, "its levels have the obsolete encoding {}; write it again",
                  encoding_name(encoding));
    }
    uint32_t length = 0;
    if (page.size() < sizeof(length)) return fail(Errc::kCorrupt, "its levels are missing");
    std::memcpy(&length, page.data(), sizeof(length));
    page = page.subspan(sizeof(length));
    if (length > page.size()) {
      return fail(Errc::kCorrupt, "its levels claim {} bytes, but {} are left", length,
                  page.size());
    }
    const ByteView levels = page.first(length);
    page = page.subspan(length);
    return levels;
  }

  // Compressed numbers without levels go straight to their place.
  bool goes_straight(const PageHeader& header) const {
    return chunk_.codec != Codec::kNone && header.encoding == Encoding::kPlain &&
           column_.definition_max == 0 && column_.repetition_max == 0 && !column_.is_bytes() &&
           column_.physical != PhysicalType::kBoolean &&
           static_cast<uint64_t>(header.plain_bytes) ==
               static_cast<uint64_t>(header.value_count) * column_.file_bytes;
  }

  Status decode_data_v1(const PageHeader& header, ByteView body) {
    RETURN_IF_ERROR(check_count(header));
    if (goes_straight(header)) {
      const auto count = static_cast<size_t>(header.value_count);
      ASSIGN_OR_RETURN(const MutableByteView place, append(count));
      RETURN_IF_ERROR(decompress(chunk_.codec, body, place));
      return count_rows(count);
    }
    ASSIGN_OR_RETURN(ByteView rest, plain(header, body, page_memory_));
    DataPage page{.value_count = static_cast<size_t>(header.value_count),
                  .encoding = header.encoding,
                  .repetition = {},
                  .definition = {},
                  .values = {}};
    if (column_.repetition_max > 0) {
      ASSIGN_OR_RETURN(page.repetition, take_levels(rest, header.repetition_encoding));
    }
    if (column_.definition_max > 0) {
      ASSIGN_OR_RETURN(page.definition, take_levels(rest, header.definition_encoding));
    }
    page.values = rest;
    return add(page);
  }

  Status decode_data_v2(const PageHeader& header, ByteView body) {
    RETURN_IF_ERROR(check_count(header));
    const auto repetition_bytes = static_cast<size_t>(header.repetition_bytes);
    const auto definition_bytes = static_cast<size_t>(header.definition_bytes);
    const size_t level_bytes = repetition_bytes + definition_bytes;
    if (level_bytes > body.size() || level_bytes > static_cast<size_t>(header.plain_bytes)) {
      return fail(Errc::kCorrupt, "its levels claim {} bytes of {}", level_bytes, body.size());
    }
    DataPage page{.value_count = static_cast<size_t>(header.value_count),
                  .encoding = header.encoding,
                  .repetition = body.first(repetition_bytes),
                  .definition = body.subspan(repetition_bytes, definition_bytes),
                  .values = body.subspan(level_bytes)};
    PageHeader values = header;
    values.plain_bytes -= static_cast<int32_t>(level_bytes);
    // If all values are null, some writers store nothing at all.
    if (header.is_compressed && !page.values.empty()) {
      ASSIGN_OR_RETURN(page.values, plain(values, page.values, page_memory_));
    }
    return add(page);
  }

  Status check_count(const PageHeader& header) const {
    const auto count = static_cast<uint64_t>(header.value_count);
    if (count <= chunk_.value_count - values_done_) return {};
    return fail(Errc::kCorrupt, "it has {} values, but its chunk has {} left", count,
                chunk_.value_count - values_done_);
  }

  Status add(const DataPage& page) {
    size_t present = page.value_count;
    if (column_.definition_max > 0) {
      RETURN_IF_ERROR(
          definition_.decode(page.definition, column_.definition_max, page.value_count));
      present =
          definition_.is_uniform
              ? (definition_.items[0] == column_.definition_max ? page.value_count : 0)
              : static_cast<size_t>(std::count(definition_.items.begin(), definition_.items.end(),
                                               column_.definition_max));
    }
    if (column_.is_list) return add_list(page, present);
    if (column_.is_bytes()) return add_bytes(page, present);
    ASSIGN_OR_RETURN(const MutableByteView place, append(page.value_count));
    RETURN_IF_ERROR(values_.decode_fixed(page.encoding, page.values, present, place));
    if (present < page.value_count) {
      spread_values(place, page.value_count, present, 0);
      mark_nulls(page.value_count);
    } else if (!out_.valid.empty()) {
      out_.valid.resize(rows_done_ + page.value_count, 1);
    }
    return count_rows(page.value_count);
  }

  Status count_rows(size_t count) {
    rows_done_ += count;
    values_done_ += count;
    return {};
  }

  void mark_nulls(size_t count) {
    definition_.spread();
    out_.valid.resize(rows_done_, 1);
    for (size_t i = 0; i < count; ++i) {
      out_.valid.push_back(definition_.items[i] == column_.definition_max ? 1 : 0);
    }
  }

  // Moves the values that are there to their slots, last first, and puts nulls between them. A slot
  // is a level of at least `from`.
  void spread_values(MutableByteView place, size_t level_count, size_t present, uint8_t from) {
    definition_.spread();
    const size_t width = column_.file_bytes;
    size_t slot = place.size() / width;
    for (size_t i = level_count; i > 0; --i) {
      const uint8_t level = definition_.items[i - 1];
      if (level < from) continue;
      std::byte* to = place.data() + --slot * width;
      if (level == column_.definition_max) {
        std::memmove(to, place.data() + --present * width, width);
      } else {
        put_null(to, width, column_.type);
      }
    }
  }

  Status add_bytes(const DataPage& page, size_t present) {
    ASSIGN_OR_RETURN(const auto views, values_.decode_bytes(page.encoding, page.values, present));
    uint64_t total = 0;
    for (const std::string_view view : views) total += view.size();
    RETURN_IF_ERROR(make_room(out_.size_bytes + total));
    const bool has_nulls = present < page.value_count;
    if (has_nulls) mark_nulls(page.value_count);
    if (!has_nulls && !out_.valid.empty()) out_.valid.resize(rows_done_ + page.value_count, 1);
    const size_t first = out_.offsets.size();
    out_.offsets.resize(first + page.value_count);
    std::byte* place = bytes_ + out_.size_bytes;
    const std::byte* const end = bytes_ + out_.memory.capacity_bytes();
    size_t next = 0;
    for (size_t i = 0; i < page.value_count; ++i) {
      out_.offsets[first + i] = static_cast<uint64_t>(place - bytes_);
      if (has_nulls && definition_.items[i] != column_.definition_max) continue;
      place = put_bytes(views[next++], page.values, place, end);
    }
    out_.size_bytes = static_cast<size_t>(place - bytes_);
    return count_rows(page.value_count);
  }

  Status add_list(const DataPage& page, size_t present) {
    RETURN_IF_ERROR(repetition_.decode(page.repetition, column_.repetition_max, page.value_count));
    repetition_.spread();
    definition_.spread();
    const std::vector<uint8_t>& levels = definition_.items;
    const auto slots = static_cast<size_t>(std::count_if(
        levels.begin(), levels.end(), [&](uint8_t level) { return level >= column_.repeated_at; }));
    const size_t slots_before = out_.size_bytes / column_.file_bytes;
    ASSIGN_OR_RETURN(const MutableByteView place, append(slots));
    RETURN_IF_ERROR(values_.decode_fixed(page.encoding, page.values, present, place));
    if (present < slots) spread_values(place, levels.size(), present, column_.repeated_at);
    RETURN_IF_ERROR(begin_rows(slots_before));
    values_done_ += page.value_count;
    return {};
  }

  // Notes where rows begin, as numbers of slots.
  Status begin_rows(size_t slot) {
    const bool can_be_null = column_.can_be_null();
    if (!repetition_.items.empty() && repetition_.items[0] != 0 && out_.offsets.empty()) {
      return fail(Errc::kCorrupt, "its first list continues one that did not begin");
    }
    for (size_t i = 0; i < repetition_.items.size(); ++i) {
      const uint8_t level = definition_.items[i];
      if (repetition_.items[i] == 0) {
        out_.offsets.push_back(slot);
        ++rows_done_;
        if (can_be_null) out_.valid.push_back(level + 1 < column_.repeated_at ? 0 : 1);
      }
      if (level < column_.repeated_at) continue;
      ++slot;
      if (level < column_.definition_max) out_.valid.back() = ColumnData::kNullItem;
    }
    return {};
  }

  // Room for `count` more values, which count as added.
  Result<MutableByteView> append(size_t count) {
    const size_t begin = out_.size_bytes;
    const uint64_t size = uint64_t{count} * column_.file_bytes;
    RETURN_IF_ERROR(make_room(begin + size));
    out_.size_bytes += static_cast<size_t>(size);
    return MutableByteView(bytes_ + begin, static_cast<size_t>(size));
  }

  Status make_room(uint64_t size_bytes) {
    if (size_bytes > limits_.chunk_bytes_max) {
      return fail(Errc::kUnsupported, "its values take more than {} bytes",
                  limits_.chunk_bytes_max);
    }
    if (size_bytes <= out_.memory.capacity_bytes() && bytes_ != nullptr) return {};
    data::Buffer larger;
    const uint64_t wanted = std::max<uint64_t>(size_bytes, out_.size_bytes * uint64_t{2});
    const MutableByteView room = larger.room(static_cast<size_t>(std::max<uint64_t>(wanted, 1)));
    if (out_.size_bytes != 0) std::memcpy(room.data(), bytes_, out_.size_bytes);
    out_.memory = std::move(larger);
    bytes_ = room.data();
    return {};
  }

  Result<ColumnData> finish() {
    if (rows_done_ != row_count_) {
      return fail(Errc::kCorrupt, "its pages have {} rows instead of {}", rows_done_, row_count_);
    }
    RETURN_IF_ERROR(make_room(out_.size_bytes));
    const bool has_offsets = column_.is_list || column_.is_bytes();
    if (has_offsets && column_.is_list) {
      out_.offsets.push_back(out_.size_bytes / column_.file_bytes);
      for (uint64_t& offset : out_.offsets) offset *= column_.item_bytes;
    } else if (has_offsets) {
      out_.offsets.push_back(out_.size_bytes);
    }
    narrow();
    if (std::find(out_.valid.begin(), out_.valid.end(), 0) == out_.valid.end() &&
        std::find(out_.valid.begin(), out_.valid.end(), ColumnData::kNullItem) ==
            out_.valid.end()) {
      out_.valid.clear();
    }
    out_.row_count = row_count_;
    out_.bytes = bytes_;
    return std::move(out_);
  }

  // Small integers have four bytes in the file.
  void narrow() {
    if (column_.item_bytes == column_.file_bytes || column_.is_bytes()) return;
    const size_t count = out_.size_bytes / column_.file_bytes;
    const bool is_wide = column_.file_bytes == 8;
    if (column_.item_bytes == 1) {
      is_wide ? narrow_as<uint64_t, uint8_t>(bytes_, count)
              : narrow_as<uint32_t, uint8_t>(bytes_, count);
    } else {
      is_wide ? narrow_as<uint64_t, uint16_t>(bytes_, count)
              : narrow_as<uint32_t, uint16_t>(bytes_, count);
    }
    out_.size_bytes = count * column_.item_bytes;
  }

  const Column& column_;
  const ColumnChunk& chunk_;
  const uint64_t row_count_;
  const DecodeLimits& limits_;
  ValueDecoder values_;
  data::Buffer dictionary_memory_;
  data::Buffer& page_memory_;
  Levels& definition_;
  Levels& repetition_;
  ColumnData out_;
  std::byte* bytes_ = nullptr;  // of out_.memory
  uint64_t values_done_ = 0;
  uint64_t rows_done_ = 0;
};

}  // namespace

uint64_t ColumnData::memory_bytes() const {
  return memory.capacity_bytes() + offsets.capacity() * sizeof(uint64_t) + valid.capacity();
}

Result<ColumnData> decode_chunk(const Column& column, const ColumnChunk& chunk, uint64_t row_count,
                                ByteView pages, const DecodeLimits& limits) {
  if (column.refusal) {
    return fail(Errc::kUnsupported, "cannot be read: {}", *column.refusal);
  }
  thread_local Scratch scratch;
  auto decoded = ChunkDecoder(column, chunk, row_count, limits, scratch).decode(pages);
  if (scratch.size_bytes() > kScratchBytesMax) scratch = {};
  return decoded;
}

}  // namespace millrace::format::parquet
