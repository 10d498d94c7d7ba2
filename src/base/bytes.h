// ByteReader and ByteWriter: bounds-checked cursors over bytes.
//
// Integers are little-endian. Every read checks the length first; the error names the position and
// the number of bytes needed and left. A failed read does not move the cursor. Neither class owns
// its bytes.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/base.h"
#include "base/result.h"

namespace millrace {

class ByteReader {
 public:
  explicit ByteReader(ByteView bytes) : bytes_(bytes) {}

  size_t position() const { return position_; }
  size_t remaining() const { return bytes_.size() - position_; }
  bool at_end() const { return remaining() == 0; }

  // Reads an integer or a struct of wire/, without conversion.
  template <typename T>
    requires std::is_trivially_copyable_v<T>
  Result<T> read() {
    ASSIGN_OR_RETURN(const ByteView view, take(sizeof(T)));
    T value;
    std::memcpy(&value, view.data(), sizeof(T));
    return value;
  }

  // A view of the next bytes, valid as long as the bytes under the reader are.
  Result<ByteView> take(size_t size_bytes) {
    if (size_bytes > remaining()) [[unlikely]] {
      return too_short(size_bytes);
    }
    const ByteView view = bytes_.subspan(position_, size_bytes);
    position_ += size_bytes;
    return view;
  }

  Result<std::string_view> take_text(size_t size_bytes) {
    ASSIGN_OR_RETURN(const ByteView view, take(size_bytes));
    return text_of(view);
  }

  Status skip(size_t size_bytes) {
    RETURN_IF_ERROR(take(size_bytes));
    return {};
  }

  // Unsigned LEB128, at most ten bytes. Refuses numbers over 64 bits and superfluous trailing zero
  // bytes, so that each number has one encoding.
  Result<uint64_t> read_varint() {
    uint64_t value = 0;
    for (size_t length = 0; length < 10; ++length) {
      if (length >= remaining()) return too_short(length + 1);
      const auto byte = std::to_integer<uint64_t>(bytes_[position_ + length]);
      if (length == 9 && byte > 1) break;
      value |= (byte & 0x7f) << (7 * length);
      if ((byte & 0x80) != 0) continue;
      if (byte == 0 && length > 0) break;
      position_ += length + 1;
      return value;
    }
    return fail(Errc::kCorrupt, "the variable-length number at byte {} is malformed", position_);
  }

 private:
  Error too_short(size_t size_bytes) const {
    return fail(Errc::kCorrupt, "{} bytes are needed at byte {}, but {} are left", size_bytes,
                position_, remaining());
  }

  ByteView bytes_;
  size_t position_ = 0;
};

class ByteWriter {
 public:
  explicit ByteWriter(MutableByteView bytes) : bytes_(bytes) {}

  size_t position() const { return position_; }
  size_t remaining() const { return bytes_.size() - position_; }

  // The bytes written so far.
  ByteView written() const { return bytes_.first(position_); }

  template <typename T>
    requires std::is_trivially_copyable_v<T>
  Status write(const T& value) {
    return append(std::as_bytes(std::span(&value, 1)));
  }

  Status append(ByteView bytes) {
    if (bytes.size() > remaining()) [[unlikely]] {
      return fail(Errc::kExhausted, "cannot write {} bytes at byte {}: there is room for only {}",
                  bytes.size(), position_, remaining());
    }
    if (!bytes.empty()) std::memcpy(bytes_.data() + position_, bytes.data(), bytes.size());
    position_ += bytes.size();
    return {};
  }

  Status append_text(std::string_view text) { return append(bytes_of(text)); }

  Status write_varint(uint64_t value) {
    std::byte encoded[10];
    size_t length = 0;
    for (; value >= 0x80; value >>= 7) encoded[length++] = static_cast<std::byte>(value | 0x80);
    encoded[length++] = static_cast<std::byte>(value);
    return append(ByteView(encoded, length));
  }

 private:
  MutableByteView bytes_;
  size_t position_ = 0;
};

// Appends a number in the encoding of ByteWriter::write_varint.
inline void append_varint(std::vector<std::byte>& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<std::byte>(value | 0x80));
  out.push_back(static_cast<std::byte>(value));
}

}  // namespace millrace
