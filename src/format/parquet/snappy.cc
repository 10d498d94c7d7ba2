#include "format/parquet/snappy.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

namespace millrace::format::parquet {
namespace {

// The two low bits of a tag. kLiteral is followed by bytes; the others copy earlier output.
enum : uint8_t { kLiteral, kCopyOneByte, kCopyTwoBytes, kCopyFourBytes };

Error damaged(std::string_view what) {
  return fail(Errc::kCorrupt, "its snappy block is damaged: {}", what);
}

uint32_t little_endian(const std::byte* at, size_t count) {
  uint32_t value = 0;
  std::memcpy(&value, at, count);
  return value;
}

class SnappyBlock {
 public:
  SnappyBlock(ByteView block, MutableByteView out)
      : at_(block.data()),
        end_(at_ + block.size()),
        out_begin_(out.data()),
        out_(out.data()),
        out_end_(out_ + out.size()) {}

  Status decompress() {
    RETURN_IF_ERROR(check_length());
    while (at_ < end_) {
      const auto tag = std::to_integer<uint8_t>(*at_++);
      RETURN_IF_ERROR((tag & 3) == kLiteral ? literal(tag >> 2) : copy(tag));
    }
    if (out_ == out_end_) return {};
    return damaged("it ends early");
  }

 private:
  size_t left() const { return static_cast<size_t>(end_ - at_); }
  size_t room() const { return static_cast<size_t>(out_end_ - out_); }

  Status check_length() {
    uint64_t length = 0;
    for (int shift = 0; shift < 35; shift += 7) {
      if (left() == 0) break;
      const auto byte = std::to_integer<uint64_t>(*at_++);
      length |= (byte & 0x7f) << shift;
      if (byte < 0x80) {
        if (length == room()) return {};
        return fail(Errc::kCorrupt, "its snappy block has {} bytes, but its page claims {}", length,
                    room());
      }
    }
    return damaged("it has no length");
  }

  Status literal(size_t code) {
    size_t length = code + 1;
    if (code >= 60) {
      const size_t bytes = code - 59;
      if (left() < bytes) return damaged("a literal ends early");
      length = size_t{little_endian(at_, bytes)} + 1;
      at_ += bytes;
    }
    // Most literals are short: a copy of fixed length is one instruction.
    if (length <= 16 && left() >= 16 && room() >= 16) {
      std::memcpy(out_, at_, 16);
    } else {
      if (length > left() || length > room()) return damaged("a literal is too long");
      std::memcpy(out_, at_, length);
    }
    at_ += length;
    out_ += length;
    return {};
  }

  Status copy(uint8_t tag) {
    const size_t extra = (tag & 3) == kCopyOneByte ? 1 : (tag & 3) == kCopyTwoBytes ? 2 : 4;
    if (left() < extra) return damaged("a copy ends early");
    size_t offset = little_endian(at_, extra);
    size_t length = (tag >> 2) + 1U;
    if ((tag & 3) == kCopyOneByte) {
      offset |= static_cast<size_t>(tag >> 5) << 8;
      length = (tag >> 2 & 7) + 4U;
    }
    at_ += extra;
    if (offset == 0 || offset > static_cast<size_t>(out_ - out_begin_) || length > room()) {
      return damaged("a copy begins before its start or is too long");
    }
    copy_earlier(offset, length);
    return {};
  }

  void copy_earlier(size_t offset, size_t length) {
    const std::byte* from = out_ - offset;
    // A copy has at most 64 bytes. In steps of 16, it writes up to 15 bytes too many.
    if (offset >= 16 && room() >= length + 16) {
      for (size_t done = 0; done < length; done += 16) std::memcpy(out_ + done, from + done, 16);
    } else {
      // Byte by byte: the bytes may overlap, and then repeat.
      for (size_t i = 0; i < length; ++i) out_[i] = from[i];
    }
    out_ += length;
  }

  const std::byte* at_;
  const std::byte* end_;
  std::byte* out_begin_;
  std::byte* out_;
  std::byte* out_end_;
};

// ---- compression ----

constexpr size_t kHashBits = 14;
// Matches are looked for within pieces of this size, so that offsets have two bytes.
constexpr size_t kPieceBytes = 65536;

void put_literal(std::string& out, ByteView bytes) {
  if (bytes.empty()) return;
  const size_t code = bytes.size() - 1;
  if (code < 60) {
    out += static_cast<char>(code << 2);
  } else {
    const size_t count = code < 256 ? 1 : 2;
    out += static_cast<char>((59 + count) << 2);
    for (size_t i = 0; i < count; ++i) out += static_cast<char>(code >> (8 * i));
  }
  out += text_of(bytes);
}

void put_copy(std::string& out, size_t offset, size_t length) {
  while (length > 0) {
    // What remains must have at least four bytes, the shortest copy that pays.
    const size_t part = length <= 64 ? length : length < 68 ? 60 : 64;
    out += static_cast<char>((part - 1) << 2 | kCopyTwoBytes);
    out += static_cast<char>(offset);
    out += static_cast<char>(offset >> 8);
    length -= part;
  }
}

uint32_t hash_of(uint32_t bytes) { return bytes * 0x9e3779b1U >> (32 - kHashBits); }

void compress_piece(ByteView piece, std::string& out) {
  std::array<uint16_t, size_t{1} << kHashBits> places{};
  const std::byte* bytes = piece.data();
  size_t literal_begin = 0;
  size_t at = 1;
  while (at + 4 <= piece.size()) {
    const uint32_t here = little_endian(bytes + at, 4);
    uint16_t& place = places[hash_of(here)];
    const size_t earlier = place;
    place = static_cast<uint16_t>(at);
    if (little_endian(bytes + earlier, 4) != here || earlier >= at) {
      at += 1 + ((at - literal_begin) >> 5);  // larger steps in what does not compress
      continue;
    }
    size_t length = 4;
    while (at + length < piece.size() && bytes[earlier + length] == bytes[at + length]) ++length;
    put_literal(out, piece.subspan(literal_begin, at - literal_begin));
    put_copy(out, at - earlier, length);
    at += length;
    literal_begin = at;
  }
  put_literal(out, piece.subspan(literal_begin));
}

}  // namespace

Status snappy_decompress(ByteView block, MutableByteView out) {
  return SnappyBlock(block, out).decompress();
}

void snappy_compress(ByteView bytes, std::string& out) {
  uint64_t length = bytes.size();
  for (; length >= 0x80; length >>= 7) out += static_cast<char>(length | 0x80);
  out += static_cast<char>(length);
  while (!bytes.empty()) {
    const size_t part = std::min(bytes.size(), kPieceBytes);
    compress_piece(bytes.first(part), out);
    bytes = bytes.subspan(part);
  }
}

}  // namespace millrace::format::parquet
