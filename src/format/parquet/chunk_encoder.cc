#include "format/parquet/chunk_encoder.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string_view>
#include <vector>

#include "base/io/gzip.h"
#include "format/parquet/codec.h"
#include "format/parquet/hybrid.h"

namespace millrace::format::parquet {
namespace {

using data::ElementType;

constexpr uint64_t kRowsPerPageMax = 1 << 20;
// A dictionary is given up if half of the first values differ, or if it grows over these.
constexpr size_t kTrialValues = 8192;
constexpr size_t kEntriesMax = 1 << 16;
constexpr size_t kDictionaryBytesMax = 1024 * 1024;

template <typename Narrow, typename Wide>
void widen_as(ByteView values, std::string& out) {
  const size_t count = values.size() / sizeof(Narrow);
  const size_t before = out.size();
  out.resize(before + count * sizeof(Wide));
  for (size_t i = 0; i < count; ++i) {
    Narrow narrow;
    std::memcpy(&narrow, values.data() + i * sizeof(Narrow), sizeof(Narrow));
    const Wide wide = narrow;
    std::memcpy(out.data() + before + i * sizeof(Wide), &wide, sizeof(Wide));
  }
}

void pack_bits(ByteView values, std::string& out) {
  const size_t before = out.size();
  out.resize(before + (values.size() + 7) / 8);
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] == std::byte{0}) continue;
    char& byte = out[before + i / 8];
    byte = static_cast<char>(byte | 1 << (i % 8));
  }
}

bool is_stored_as_it_is(ElementType type) {
  return data::element_bytes(type) >= 4 || type == ElementType::kF16;
}

// PLAIN values of numbers.
void put_numbers(ByteView values, ElementType type, std::string& out) {
  switch (type) {
    case ElementType::kBool:
      return pack_bits(values, out);
    case ElementType::kI8:
      return widen_as<int8_t, int32_t>(values, out);
    case ElementType::kU8:
      return widen_as<uint8_t, int32_t>(values, out);
    case ElementType::kI16:
      return widen_as<int16_t, int32_t>(values, out);
    case ElementType::kU16:
      return widen_as<uint16_t, int32_t>(values, out);
    default:
      out += text_of(values);
  }
}

void put_length(std::string& out, size_t length) {
  const auto narrow = static_cast<uint32_t>(length);
  out.append(reinterpret_cast<const char*>(&narrow), sizeof(narrow));
}

// Numbers the different values of a column in order of appearance. std::unordered_map takes several
// times as long, because it allocates each entry.
class ValueNumbers {
 public:
  ValueNumbers() : slots_(size_t{1} << kSlotBits, kFree) {}

  // The number of the value; entries().size() - 1 if it is new.
  uint32_t add(std::string_view value) {
    for (size_t slot = hash(value);; slot = (slot + 1) & (slots_.size() - 1)) {
      const uint32_t number = slots_[slot];
      if (number == kFree) {
        slots_[slot] = static_cast<uint32_t>(entries_.size());
        entries_.push_back(value);
        return slots_[slot];
      }
      if (is_same(entries_[number], value)) return number;
    }
  }

  const std::vector<std::string_view>& entries() const { return entries_; }

 private:
  static constexpr uint32_t kFree = ~uint32_t{0};
  static constexpr size_t kSlotBits = 17;  // twice kEntriesMax

  template <typename T>
  static T word_of(std::string_view value) {
    T word;
    std::memcpy(&word, value.data(), sizeof(word));
    return word;
  }

  // Numbers are compared and hashed as words: their lengths are constants.
  static bool is_same(std::string_view a, std::string_view b) {
    if (a.size() != b.size()) return false;
    if (a.size() == 4) return word_of<uint32_t>(a) == word_of<uint32_t>(b);
    if (a.size() == 8) return word_of<uint64_t>(a) == word_of<uint64_t>(b);
    return a == b;
  }

  static size_t slot_of(uint64_t hash) {
    return static_cast<size_t>((hash * 0x9e3779b97f4a7c15) >> (64 - kSlotBits));
  }

  static size_t hash(std::string_view value) {
    if (value.size() == 4) return slot_of(word_of<uint32_t>(value));
    if (value.size() == 8) return slot_of(word_of<uint64_t>(value));
    uint64_t hash = value.size();
    while (!value.empty()) {
      uint64_t word = 0;
      const size_t part = std::min(value.size(), sizeof(word));
      std::memcpy(&word, value.data(), part);
      hash = (hash ^ word) * 0x9e3779b97f4a7c15;
      hash ^= hash >> 32;
      value.remove_prefix(part);
    }
    return slot_of(hash);
  }

  std::vector<uint32_t> slots_;
  std::vector<std::string_view> entries_;
};

class ChunkEncoder {
 public:
  ChunkEncoder(const ParquetWriteOptions& options, const TakeBytes& take)
      : options_(options), take_(take) {}

  Result<ColumnChunk> encode(const ColumnRows& rows) {
    rows_ = rows;
    begin_chunk();
    if (options_.use_dictionary && make_dictionary()) RETURN_IF_ERROR(put_dictionary());
    for (uint64_t row = rows_.begin; row < rows_.end;) {
      const uint64_t end = page_end(row);
      RETURN_IF_ERROR(put_page(row, end));
      row = end;
    }
    return chunk_;
  }

  Result<ColumnChunk> encode_made(const MadeRows& rows, data::Buffer& room) {
    rows_.column = rows.column;
    begin_chunk();
    const uint64_t fitting = options_.page_bytes / std::max<size_t>(rows.row_bytes(), 1);
    const uint64_t page_rows = std::clamp<uint64_t>(fitting, 1, kRowsPerPageMax);
    for (uint64_t row = rows.begin; row < rows.end; row += page_rows) {
      const uint64_t end = std::min(rows.end, row + page_rows);
      RETURN_IF_ERROR(rows_.is_bytes() ? put_made_byte_arrays(rows, row, end, room)
                                       : put_made_numbers(rows, row, end, room));
    }
    return chunk_;
  }

 private:
  void begin_chunk() {
    chunk_.type = physical_of(*rows_.column).type;
    chunk_.codec = options_.codec;
  }

  std::string_view value(uint64_t row) const {
    const uint64_t begin = rows_.offset(row) * rows_.item_bytes();
    const uint64_t end = rows_.offset(row + 1) * rows_.item_bytes();
    return text_of(rows_.values.values).substr(begin, end - begin);
  }

  ByteView values(uint64_t begin, uint64_t end) const {
    const uint64_t first = rows_.offset(begin) * rows_.item_bytes();
    const uint64_t last = rows_.offset(end) * rows_.item_bytes();
    return rows_.values.values.subspan(static_cast<size_t>(first),
                                       static_cast<size_t>(last - first));
  }

  // As many rows as fit into a page, but at least one.
  uint64_t page_end(uint64_t row) const {
    const uint64_t max = std::min(rows_.end, row + kRowsPerPageMax);
    const uint64_t items = std::max<uint64_t>(options_.page_bytes / rows_.item_bytes(), 1);
    const uint64_t limit = rows_.offset(row) + items;
    if (rows_.offset(max) <= limit) return max;
    uint64_t low = row + 1;
    uint64_t high = max;
    while (low < high) {
      const uint64_t middle = low + (high - low + 1) / 2;
      if (rows_.offset(middle) <= limit) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    return low;
  }

  // False if the values do not repeat enough.
  bool make_dictionary() {
    const bool is_number = rows_.column->kind == ParquetColumn::Kind::kNumber;
    if (rows_.column->kind == ParquetColumn::Kind::kList) return false;
    if (is_number && !is_stored_as_it_is(rows_.column->type)) return false;
    ValueNumbers numbers;
    size_t entry_bytes = 0;
    size_t plain_bytes = 0;
    const size_t overhead = is_number ? 0 : sizeof(uint32_t);
    indexes_.reserve(static_cast<size_t>(std::min<uint64_t>(rows_.end - rows_.begin, 1 << 20)));
    for (uint64_t row = rows_.begin; row < rows_.end; ++row) {
      const std::string_view text = value(row);
      const size_t before = numbers.entries().size();
      indexes_.push_back(numbers.add(text));
      plain_bytes += text.size() + overhead;
      if (indexes_.back() < before) continue;
      entry_bytes += text.size() + overhead;
      const bool is_hopeless = indexes_.size() <= kTrialValues && before > kTrialValues / 2;
      if (is_hopeless || before >= kEntriesMax || entry_bytes > kDictionaryBytesMax) return false;
    }
    entries_ = numbers.entries();
    index_bits_ = std::max(bits_for(entries_.empty() ? 0 : entries_.size() - 1), 1);
    const size_t index_bytes = indexes_.size() * static_cast<size_t>(index_bits_) / 8;
    has_dictionary_ = entry_bytes + index_bytes < plain_bytes / 4 * 3;
    return has_dictionary_;
  }

  Status put_dictionary() {
    std::string body;
    for (const std::string_view entry : entries_) {
      if (rows_.is_bytes()) put_length(body, entry.size());
      body += entry;
    }
    RETURN_IF_ERROR(put({.type = PageType::kDictionary,
                         .crc32 = {},
                         .value_count = static_cast<int32_t>(entries_.size()),
                         .encoding = Encoding::kPlain},
                        bytes_of(body)));
    chunk_.dictionary_bytes = chunk_.size_bytes;
    return {};
  }

  Status put_page(uint64_t begin, uint64_t end) {
    const uint64_t items = rows_.offset(end) - rows_.offset(begin);
    PageHeader header{.type = PageType::kData, .crc32 = {}, .encoding = Encoding::kPlain};
    uint64_t count = end - begin;
    body_.clear();
    if (rows_.column->kind == ParquetColumn::Kind::kList) count = put_levels(begin, end);
    chunk_.value_count += count;
    if (items * 4 > std::numeric_limits<int32_t>::max() ||
        count > std::numeric_limits<int32_t>::max()) {
      return fail(Errc::kInvalidArgument, "a row of column '{}' has {} elements; split it",
                  rows_.column->name, items);
    }
    header.value_count = static_cast<int32_t>(count);
    if (has_dictionary_) {
      header.encoding = Encoding::kRleDictionary;
      put_indexes(begin, end);
    } else if (rows_.is_bytes()) {
      put_byte_arrays(begin, end);
    } else if (body_.empty() && is_stored_as_it_is(rows_.column->type)) {
      return put(header, values(begin, end));  // without a copy
    } else {
      put_numbers(values(begin, end), rows_.column->type, body_);
    }
    return put(header, bytes_of(body_));
  }

  void put_byte_arrays(uint64_t begin, uint64_t end) {
    body_.reserve(values(begin, end).size() + (end - begin) * sizeof(uint32_t));
    for (uint64_t row = begin; row < end; ++row) {
      const std::string_view text = value(row);
      put_length(body_, text.size());
      body_ += text;
    }
  }

  // Makes the values where their page is, between their lengths.
  Status put_made_byte_arrays(const MadeRows& made, uint64_t begin, uint64_t end,
                              data::Buffer& room) {
    const auto length = static_cast<uint32_t>(made.row_items);
    if (length != made.row_items) return too_long(made.row_items);
    const size_t row_bytes = sizeof(length) + made.row_items;
    const MutableByteView page = room.room(static_cast<size_t>(end - begin) * row_bytes);
    for (uint64_t row = begin; row < end; ++row) {
      const MutableByteView place =
          page.subspan(static_cast<size_t>(row - begin) * row_bytes, row_bytes);
      std::memcpy(place.data(), &length, sizeof(length));
      made.make(row, place.subspan(sizeof(length)));
    }
    chunk_.value_count += end - begin;
    return put({.type = PageType::kData,
                .crc32 = {},
                .value_count = static_cast<int32_t>(end - begin),
                .encoding = Encoding::kPlain},
               page);
  }

  Status put_made_numbers(const MadeRows& made, uint64_t begin, uint64_t end, data::Buffer& room) {
    const size_t row_bytes = made.row_bytes();
    const MutableByteView values = room.room(static_cast<size_t>(end - begin) * row_bytes);
    for (uint64_t row = begin; row < end; ++row) {
      made.make(row, values.subspan(static_cast<size_t>(row - begin) * row_bytes, row_bytes));
    }
    rows_ = {made.column, {.values = values}, end - begin, 0, end - begin};
    return put_page(0, end - begin);
  }

  void put_indexes(uint64_t begin, uint64_t end) {
    body_ += static_cast<char>(index_bits_);
    HybridEncoder encoder(index_bits_, body_);
    const auto last = indexes_.begin() + static_cast<ptrdiff_t>(end - rows_.begin);
    for (auto at = indexes_.begin() + static_cast<ptrdiff_t>(begin - rows_.begin); at != last;) {
      const auto next = std::find_if(at, last, [&](uint32_t index) { return index != *at; });
      encoder.add(*at, static_cast<uint64_t>(next - at));
      at = next;
    }
    encoder.finish();
  }

  // The levels of lists: an item begins a row or continues one; an empty list has no item. Returns
  // the number of levels.
  uint64_t put_levels(uint64_t begin, uint64_t end) {
    std::string repetition;
    std::string definition;
    HybridEncoder begins(1, repetition);
    HybridEncoder items(1, definition);
    uint64_t count = 0;
    for (uint64_t row = begin; row < end; ++row) {
      const uint64_t length = rows_.offset(row + 1) - rows_.offset(row);
      begins.add(0);
      if (length > 1) begins.add(1, length - 1);
      length == 0 ? items.add(0) : items.add(1, length);
      count += std::max<uint64_t>(length, 1);
    }
    begins.finish();
    items.finish();
    put_length(body_, repetition.size());
    body_ += repetition;
    put_length(body_, definition.size());
    body_ += definition;
    return count;
  }

  Status put(PageHeader header, ByteView body) {
    if (body.size() > std::numeric_limits<int32_t>::max()) return too_long(body.size());
    header.plain_bytes = static_cast<int32_t>(body.size());
    if (options_.codec != Codec::kNone) {
      packed_.clear();
      RETURN_IF_ERROR(compress(options_.codec, body, packed_));
      body = bytes_of(packed_);
    }
    header.packed_bytes = static_cast<int32_t>(body.size());
    if (options_.has_checksums) header.crc32 = zip_crc32(body);
    header_.clear();
    encode_page_header(header, header_);
    chunk_.plain_bytes += header_.size() + static_cast<uint64_t>(header.plain_bytes);
    chunk_.size_bytes += header_.size() + body.size();
    RETURN_IF_ERROR(take_(bytes_of(header_)));
    return take_(body);
  }

  Error too_long(uint64_t size_bytes) const {
    return fail(Errc::kInvalidArgument, "a row of column '{}' has {} bytes; split it",
                rows_.column->name, size_bytes);
  }

  const ParquetWriteOptions& options_;
  const TakeBytes& take_;
  ColumnRows rows_;
  ColumnChunk chunk_;
  bool has_dictionary_ = false;
  std::vector<std::string_view> entries_;
  std::vector<uint32_t> indexes_;  // by row
  int index_bits_ = 0;
  std::string header_;
  std::string body_;
  std::string packed_;
};

}  // namespace

PhysicalColumn physical_of(const ParquetColumn& column) {
  if (column.kind == ParquetColumn::Kind::kBytes) return {.type = PhysicalType::kByteArray};
  if (column.kind == ParquetColumn::Kind::kText) {
    return {.type = PhysicalType::kByteArray, .meaning = Meaning::kText};
  }
  switch (column.type) {
    case ElementType::kBool:
      return {.type = PhysicalType::kBoolean};
    case ElementType::kI8:
      return {.type = PhysicalType::kInt32, .meaning = Meaning::kInt8};
    case ElementType::kU8:
      return {.type = PhysicalType::kInt32, .meaning = Meaning::kUint8};
    case ElementType::kI16:
      return {.type = PhysicalType::kInt32, .meaning = Meaning::kInt16};
    case ElementType::kU16:
      return {.type = PhysicalType::kInt32, .meaning = Meaning::kUint16};
    case ElementType::kI32:
      return {.type = PhysicalType::kInt32};
    case ElementType::kU32:
      return {.type = PhysicalType::kInt32, .meaning = Meaning::kUint32};
    case ElementType::kI64:
      return {.type = PhysicalType::kInt64};
    case ElementType::kU64:
      return {.type = PhysicalType::kInt64, .meaning = Meaning::kUint64};
    case ElementType::kF64:
      return {.type = PhysicalType::kDouble};
    case ElementType::kF16:
      return {
          .type = PhysicalType::kFixedLenByteArray, .type_length = 2, .meaning = Meaning::kFloat16};
    case ElementType::kF32:
    case ElementType::kBf16:
      break;
  }
  return {.type = PhysicalType::kFloat};
}

size_t MadeRows::row_bytes() const {
  const ColumnRows rows{.column = column, .values = {}};
  return static_cast<size_t>(row_items) * rows.item_bytes();
}

Result<ColumnChunk> encode_chunk(const ColumnRows& rows, const ParquetWriteOptions& options,
                                 const TakeBytes& take) {
  return ChunkEncoder(options, take).encode(rows);
}

Result<ColumnChunk> encode_made_chunk(const MadeRows& rows, const ParquetWriteOptions& options,
                                      data::Buffer& room, const TakeBytes& take) {
  return ChunkEncoder(options, take).encode_made(rows, room);
}

}  // namespace millrace::format::parquet
