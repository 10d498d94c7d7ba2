// Protobuf: writes messages in the wire format of Protocol Buffers, field by field.
//
// Supports what writers need: numbers, texts and nested messages. A nested message is written
// in place after one byte for its length. If that turns out too small, the message is moved.
#pragma once

#include <bit>
#include <cassert>
#include <cstdint>
#include <string>
#include <string_view>

namespace millrace {

class ProtobufWriter {
 public:
  explicit ProtobufWriter(std::string& out) : out_(out) {}

  void uint(uint32_t field, uint64_t value) {
    key(field, kVarint);
    varint(value);
  }

  // For int32, int64 and enum. Negative numbers take ten bytes.
  void sint(uint32_t field, int64_t value) { uint(field, static_cast<uint64_t>(value)); }

  void number(uint32_t field, double value) {
    key(field, kFixed64);
    const auto bits = std::bit_cast<uint64_t>(value);
    for (int shift = 0; shift < 64; shift += 8) out_ += static_cast<char>(bits >> shift);
  }

  void fixed32(uint32_t field, uint32_t value) {
    key(field, kFixed32);
    for (int shift = 0; shift < 32; shift += 8) out_ += static_cast<char>(value >> shift);
  }

  void text(uint32_t field, std::string_view value) {
    head(field, value.size());
    out_ += value;
  }

  // The key and length of a text or message whose bytes the caller writes.
  void head(uint32_t field, uint64_t size_bytes) {
    key(field, kLengthDelimited);
    varint(size_bytes);
  }

  // A nested message. write() fills it through the same writer. REQUIRES: less than 256 MiB.
  template <typename Write>
  void message(uint32_t field, Write&& write) {
    key(field, kLengthDelimited);
    const size_t length_at = out_.size();
    out_.append(1, '\0');
    write();
    const size_t length = out_.size() - length_at - 1;
    if (length < 0x80) {  // nearly always
      out_[length_at] = static_cast<char>(length);
      return;
    }
    assert(length < (size_t{1} << 28));
    char digits[5];
    size_t count = 0;
    for (size_t rest = length; count == 0 || rest != 0; rest >>= 7) {
      digits[count++] = static_cast<char>((rest & 0x7f) | (rest >= 0x80 ? 0x80 : 0));
    }
    out_.replace(length_at, 1, digits, count);
  }

 private:
  static constexpr uint32_t kVarint = 0;
  static constexpr uint32_t kFixed64 = 1;
  static constexpr uint32_t kLengthDelimited = 2;
  static constexpr uint32_t kFixed32 = 5;

  void key(uint32_t field, uint32_t type) { varint(uint64_t{field} << 3 | type); }

  void varint(uint64_t value) {
    while (value >= 0x80) {
      out_ += static_cast<char>(value | 0x80);
      value >>= 7;
    }
    out_ += static_cast<char>(value);
  }

  std::string& out_;
};

}  // namespace millrace
