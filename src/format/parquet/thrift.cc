#include "format/parquet/thrift.h"

#include <limits>

namespace millrace::format::parquet {
namespace {

// Parquet's own structs are nested seven deep.
constexpr int kDepthMax = 32;

uint64_t zigzag_of(int64_t value) {
  return static_cast<uint64_t>(value) << 1 ^ static_cast<uint64_t>(value >> 63);
}

bool is_integer(ThriftType type) { return type >= ThriftType::kByte && type <= ThriftType::kI64; }

}  // namespace

void ThriftReader::fault(std::string_view what) {
  if (error_) return;
  error_ = fail(Errc::kCorrupt, "its Thrift structure is malformed at byte {} of {}: {}", at_,
                bytes_.size(), what);
}

bool ThriftReader::expect(ThriftType found, ThriftType wanted) {
  if (found != wanted) fault("a field has the wrong type");
  return !error_;
}

bool ThriftReader::enter() {
  if (error_) return false;
  if (++depth_ > kDepthMax) fault("it is nested too deep");
  return !error_;
}

uint8_t ThriftReader::byte() {
  if (error_) return 0;
  if (at_ == bytes_.size()) {
    fault("it ends early");
    return 0;
  }
  return std::to_integer<uint8_t>(bytes_[at_++]);
}

uint64_t ThriftReader::varint() {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const uint8_t next = byte();
    value |= static_cast<uint64_t>(next & 0x7f) << shift;
    if ((next & 0x80) == 0) return value;
  }
  fault("a number has more than 64 bits");
  return 0;
}

int64_t ThriftReader::zigzag() {
  const uint64_t value = varint();
  return static_cast<int64_t>(value >> 1 ^ (~(value & 1) + 1));
}

void ThriftReader::skip_bytes(uint64_t count) {
  if (error_) return;
  if (count > bytes_.size() - at_) return fault("it ends early");
  at_ += static_cast<size_t>(count);
}

std::optional<ThriftType> ThriftReader::next_field(int16_t& id) {
  const uint8_t head = byte();
  if (error_ || head == 0) return std::nullopt;
  const uint8_t type = head & 0x0f;
  const int64_t next = (head >> 4) != 0 ? id + (head >> 4) : zigzag();
  if (type == 0 || type > static_cast<uint8_t>(ThriftType::kStruct) || next < 0 ||
      next > std::numeric_limits<int16_t>::max()) {
    fault("a field has an unknown type or number");
  }
  if (error_) return std::nullopt;
  id = static_cast<int16_t>(next);
  return static_cast<ThriftType>(type);
}

uint64_t ThriftReader::list_head(ThriftType& item) {
  const uint8_t head = byte();
  item = static_cast<ThriftType>(head & 0x0f);
  const uint64_t count = (head >> 4) != 15 ? head >> 4 : varint();
  // Each item takes at least one byte. fastparquet writes an empty list without a type.
  const bool is_typed = item != ThriftType::kStop && item <= ThriftType::kStruct;
  if ((!is_typed && count > 0) || count > bytes_.size() - at_) {
    fault("a list has an unknown type or is too long");
  }
  return error_ ? 0 : count;
}

void ThriftReader::skip_map() {
  const uint64_t count = varint();
  if (count == 0) return;
  const uint8_t types = byte();
  if (count > bytes_.size() - at_) return fault("a map is too long");
  for (uint64_t i = 0; i < count && !error_; ++i) {
    skip(static_cast<ThriftType>(types >> 4));
    skip(static_cast<ThriftType>(types & 0x0f));
  }
}

void ThriftReader::skip(ThriftType type) {
  if (error_) return;
  switch (type) {
    case ThriftType::kTrue:
    case ThriftType::kFalse:
      return;  // the value is the type
    case ThriftType::kByte:
      return skip_bytes(1);
    case ThriftType::kI16:
    case ThriftType::kI32:
    case ThriftType::kI64:
      varint();
      return;
    case ThriftType::kDouble:
      return skip_bytes(8);
    case ThriftType::kBinary:
      return skip_bytes(varint());
    case ThriftType::kList:
    case ThriftType::kSet:
      read_list(
          ThriftType::kList, [](uint64_t) {},
          [&](ThriftType item) {
            // In lists, a boolean is a byte.
            item <= ThriftType::kFalse ? skip_bytes(1) : skip(item);
          });
      return;
    case ThriftType::kMap:
      if (!enter()) return;
      skip_map();
      --depth_;
      return;
    case ThriftType::kStruct:
      read_struct([](int16_t, ThriftType) { return false; });
      return;
    case ThriftType::kStop:
      break;
  }
  fault("a value has an unknown type");
}

bool ThriftReader::read(ThriftType type, int64_t& out) {
  if (!is_integer(type)) fault("a field is not an integer");
  if (type == ThriftType::kByte) {
    out = static_cast<int8_t>(byte());
  } else {
    out = zigzag();
  }
  return true;
}

bool ThriftReader::read(ThriftType type, int32_t& out) {
  int64_t wide = 0;
  read(type, wide);
  if (wide < std::numeric_limits<int32_t>::min() || wide > std::numeric_limits<int32_t>::max()) {
    fault("a number has more than 32 bits");
    wide = 0;
  }
  out = static_cast<int32_t>(wide);
  return true;
}

bool ThriftReader::read(ThriftType type, bool& out) {
  if (type != ThriftType::kTrue && type != ThriftType::kFalse) fault("a field is not a boolean");
  out = type == ThriftType::kTrue;
  return true;
}

bool ThriftReader::read(ThriftType type, std::string_view& out) {
  out = {};
  if (!expect(type, ThriftType::kBinary)) return true;
  const uint64_t length = varint();
  const size_t begin = at_;
  skip_bytes(length);
  if (!error_) out = text_of(bytes_.subspan(begin, at_ - begin));
  return true;
}

void ThriftWriter::varint(uint64_t value) {
  for (; value >= 0x80; value >>= 7) out_ += static_cast<char>(value | 0x80);
  out_ += static_cast<char>(value);
}

void ThriftWriter::head(int16_t id, ThriftType type) {
  out_ += static_cast<char>((id - last_id_) << 4 | static_cast<int>(type));
  last_id_ = id;
}

void ThriftWriter::field(int16_t id, int32_t value) {
  head(id, ThriftType::kI32);
  varint(zigzag_of(value));
}

void ThriftWriter::field(int16_t id, int64_t value) {
  head(id, ThriftType::kI64);
  varint(zigzag_of(value));
}

void ThriftWriter::field(int16_t id, bool value) {
  head(id, value ? ThriftType::kTrue : ThriftType::kFalse);
}

void ThriftWriter::field(int16_t id, std::string_view value) {
  head(id, ThriftType::kBinary);
  item(value);
}

void ThriftWriter::byte_field(int16_t id, uint8_t value) {
  head(id, ThriftType::kByte);
  out_ += static_cast<char>(value);
}

void ThriftWriter::begin_struct(int16_t id) {
  head(id, ThriftType::kStruct);
  begin_item();
}

void ThriftWriter::begin_list(int16_t id, ThriftType item, size_t count) {
  head(id, ThriftType::kList);
  const auto type = static_cast<unsigned>(item);
  out_ += static_cast<char>((count < 15 ? count << 4 : 0xf0U) | type);
  if (count >= 15) varint(count);
}

void ThriftWriter::item(int32_t value) { varint(zigzag_of(value)); }

void ThriftWriter::item(std::string_view value) {
  varint(value.size());
  out_ += value;
}

void ThriftWriter::begin_item() {
  outer_ids_ += static_cast<char>(last_id_);
  last_id_ = 0;
}

void ThriftWriter::end() {
  out_ += '\0';
  if (outer_ids_.empty()) return;  // the outermost struct
  last_id_ = outer_ids_.back();
  outer_ids_.pop_back();
}

}  // namespace millrace::format::parquet
