// BytesOut: a growing buffer of little-endian values, in the encodings that ByteReader reads.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/base.h"

namespace millrace::trace {

constexpr uint64_t zigzag(int64_t value) {
  return (static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63);
}

constexpr int64_t unzigzag(uint64_t value) {
  return static_cast<int64_t>((value >> 1) ^ (~(value & 1) + 1));
}

class BytesOut {
 public:
  std::vector<std::byte>& buffer() { return bytes_; }
  ByteView view() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  void clear() { bytes_.clear(); }

  void append(ByteView bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }

  template <typename T>
    requires std::is_trivially_copyable_v<T>
  void put(const T& value) {
    append(std::as_bytes(std::span(&value, 1)));
  }

  void put_varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<std::byte>(value | 0x80));
    bytes_.push_back(static_cast<std::byte>(value));
  }

  void put_signed(int64_t value) { put_varint(zigzag(value)); }

  void put_text(std::string_view text) {
    put_varint(text.size());
    append(bytes_of(text));
  }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace millrace::trace
