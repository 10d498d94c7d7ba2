#include "bench/generate/images/jpeg_scan.h"

#include <algorithm>
#include <array>

namespace millrace::bench {
namespace {

constexpr size_t kBlockCoefficients = 64;
constexpr uint32_t kBlockSide = 8;
constexpr size_t kTablesMax = 4;      // of each class
constexpr size_t kComponentsMax = 4;  // of an interleaved scan
constexpr size_t kCodeBits = 16;      // the longest code
constexpr size_t kPaddingBytes = 8;

size_t byte_at(ByteView bytes, size_t at) { return std::to_integer<size_t>(bytes[at]); }
size_t pair_at(ByteView bytes, size_t at) {
  return byte_at(bytes, at) << 8 | byte_at(bytes, at + 1);
}

Error malformed(std::string_view what) {
  return fail(Errc::kCorrupt, "the JPEG cannot be taken apart: {}", what);
}

struct Code {
  uint8_t bits = 0;  // 0: no code
  uint8_t symbol = 0;
};

// By the next 16 bits.
using HuffmanTable = std::vector<Code>;

struct Component {
  size_t id = 0;
  uint32_t width = 1;  // in blocks of an MCU
  uint32_t height = 1;
  size_t dc = 0;
  size_t ac = 0;
};

// The bits of an interval without the zeros that follow FF.
class BitCursor {
 public:
  explicit BitCursor(ByteView padded) : bytes_(padded) {}

  size_t position() const { return position_; }
  bool is_within() const { return position_ <= (bytes_.size() - kPaddingBytes) * 8; }
  void skip(size_t bits) { position_ += bits; }

  // REQUIRES: is_within().
  size_t next_16() const {
    const size_t at = position_ / 8;
    const size_t three = pair_at(bytes_, at) << 8 | byte_at(bytes_, at + 2);
    return three >> (8 - position_ % 8) & 0xffff;
  }

 private:
  ByteView bytes_;
  size_t position_ = 0;
};

class ScanParser {
 public:
  explicit ScanParser(ByteView jpeg) : jpeg_(jpeg) {}

  Result<JpegScan> parse() {
    RETURN_IF_ERROR(read_head());
    RETURN_IF_ERROR(check_head());
    RETURN_IF_ERROR(read_intervals());
    return std::move(scan_);
  }

 private:
  Status read_head();
  Status read_segment(size_t marker, ByteView body, size_t body_at);
  Status read_frame(ByteView body, size_t body_at);
  Status read_tables(ByteView body);
  Status read_components(ByteView body);
  Status check_head();
  Status read_intervals();
  Status add_interval(const std::vector<std::byte>& plain, size_t mcu_count);
  Result<uint8_t> read_symbol(BitCursor& cursor, const HuffmanTable& table) const;
  Status read_block(BitCursor& cursor, const Component& component, std::vector<std::byte>& free);

  ByteView jpeg_;
  JpegScan scan_;
  image::Size size_;
  std::vector<Component> components_;
  std::array<HuffmanTable, kTablesMax> dc_;
  std::array<HuffmanTable, kTablesMax> ac_;
};

Status ScanParser::read_head() {
  constexpr size_t kScan = 0xda;
  for (size_t at = 2;;) {
    if (jpeg_.size() < at + 4 || byte_at(jpeg_, at) != 0xff) return malformed("no segment");
    const size_t marker = byte_at(jpeg_, at + 1);
    const size_t length = pair_at(jpeg_, at + 2);
    if (length < 2 || length > jpeg_.size() - at - 2) return malformed("a segment is cut off");
    RETURN_IF_ERROR(read_segment(marker, jpeg_.subspan(at + 4, length - 2), at + 4));
    at += 2 + length;
    if (marker != kScan) continue;
    scan_.head_bytes = at;
    return {};
  }
}

Status ScanParser::read_segment(size_t marker, ByteView body, size_t body_at) {
  switch (marker) {
    case 0xc0:
    case 0xc1:
      return read_frame(body, body_at);
    case 0xc4:
      return read_tables(body);
    case 0xda:
      return read_components(body);
    case 0xdd:
      if (body.size() < 2) return malformed("the restart interval is cut off");
      scan_.interval_mcus = pair_at(body, 0);
      return {};
    default:
      return marker > 0xc1 && marker < 0xd0 ? malformed("it is progressive or arithmetic")
                                            : Status();
  }
}

Status ScanParser::read_frame(ByteView body, size_t body_at) {
  constexpr size_t kHeadBytes = 6;
  if (body.size() < kHeadBytes) return malformed("the frame is cut off");
  const size_t count = byte_at(body, 5);
  if (count == 0 || count > kComponentsMax || body.size() < kHeadBytes + 3 * count) {
    return malformed("the frame is cut off");
  }
  scan_.size_at = body_at + 1;
  size_ = {.width = static_cast<uint32_t>(pair_at(body, 3)),
           .height = static_cast<uint32_t>(pair_at(body, 1))};
  components_.clear();
  for (size_t i = 0; i < count; ++i) {
    const size_t sampling = byte_at(body, kHeadBytes + 3 * i + 1);
    components_.push_back({.id = byte_at(body, kHeadBytes + 3 * i),
                           .width = static_cast<uint32_t>(sampling >> 4),
                           .height = static_cast<uint32_t>(sampling & 15)});
  }
  return {};
}

Status ScanParser::read_tables(ByteView body) {
  while (!body.empty()) {
    if (body.size() < 1 + kCodeBits) return malformed("a Huffman table is cut off");
    const size_t id = byte_at(body, 0);
    if ((id >> 4) > 1 || (id & 15) >= kTablesMax) return malformed("unknown Huffman table");
    HuffmanTable& table = (id >> 4 == 0 ? dc_ : ac_)[id & 15];
    table.assign(size_t{1} << kCodeBits, {});
    size_t symbol_at = 1 + kCodeBits;
    size_t next = 0;  // in the table
    for (size_t bits = 1; bits <= kCodeBits; ++bits) {
      const size_t width = size_t{1} << (kCodeBits - bits);
      for (size_t i = 0; i < byte_at(body, bits); ++i, ++symbol_at, next += width) {
        if (symbol_at >= body.size() || next + width > table.size()) {
          return malformed("a Huffman table has too many codes");
        }
        const Code code{.bits = static_cast<uint8_t>(bits),
                        .symbol = std::to_integer<uint8_t>(body[symbol_at])};
        std::fill_n(table.begin() + static_cast<ptrdiff_t>(next), width, code);
      }
    }
    body = body.subspan(symbol_at);
  }
  return {};
}

Status ScanParser::read_components(ByteView body) {
  if (body.empty() || body.size() < 1 + 2 * byte_at(body, 0) + 3) {
    return malformed("the head of the scan is cut off");
  }
  if (byte_at(body, 0) != components_.size()) return malformed("it has several scans");
  for (size_t i = 0; i < components_.size(); ++i) {
    const size_t tables = byte_at(body, 2 + 2 * i);
    components_[i].dc = tables >> 4;
    components_[i].ac = tables & 15;
    if (byte_at(body, 1 + 2 * i) != components_[i].id || components_[i].dc >= kTablesMax ||
        components_[i].ac >= kTablesMax) {
      return malformed("the scan has an unknown component");
    }
  }
  return {};
}

Status ScanParser::check_head() {
  if (components_.empty() || scan_.interval_mcus == 0) {
    return malformed("it has no frame or no restart intervals");
  }
  if (components_.size() == 1) components_[0].width = components_[0].height = 1;
  image::Size blocks{.width = 1, .height = 1};
  for (const Component& component : components_) {
    if (dc_[component.dc].empty() || ac_[component.ac].empty()) {
      return malformed("a Huffman table is missing");
    }
    if (component.width == 0 || component.height == 0 || component.width > 4 ||
        component.height > 4) {
      return malformed("a component has no blocks");
    }
    blocks.width = std::max(blocks.width, component.width);
    blocks.height = std::max(blocks.height, component.height);
  }
  scan_.mcu = {.width = blocks.width * kBlockSide, .height = blocks.height * kBlockSide};
  return {};
}

Status ScanParser::read_intervals() {
  const auto units = [](uint32_t pixels, uint32_t unit) {
    return size_t{(pixels + unit - 1) / unit};
  };
  size_t left = units(size_.width, scan_.mcu.width) * units(size_.height, scan_.mcu.height);
  std::vector<std::byte> plain;
  for (size_t at = scan_.head_bytes; at < jpeg_.size(); ++at) {
    plain.push_back(jpeg_[at]);
    if (byte_at(jpeg_, at) != 0xff) continue;
    if (++at == jpeg_.size()) break;
    const size_t marker = byte_at(jpeg_, at);
    if (marker == 0) continue;
    plain.pop_back();
    const size_t count = std::min(left, scan_.interval_mcus);
    RETURN_IF_ERROR(add_interval(plain, count));
    left -= count;
    plain.clear();
    if (left == 0) return {};
    if (marker < 0xd0 || marker > 0xd7) break;
  }
  return malformed("its end is missing");
}

// Bytes that are FF, or could become so, keep a bit that is as it was.
std::byte without_marker(std::byte free, std::byte byte) {
  if (byte == std::byte{0xff}) return {};
  const auto fixed_zeros = static_cast<uint8_t>(~std::to_integer<unsigned>(byte | free));
  if (fixed_zeros != 0) return free;
  const unsigned zeros = ~std::to_integer<unsigned>(byte) & 0xff;
  return free & ~static_cast<std::byte>(zeros & (~zeros + 1));
}

Status ScanParser::add_interval(const std::vector<std::byte>& plain, size_t mcu_count) {
  std::vector<std::byte> padded = plain;
  padded.resize(plain.size() + kPaddingBytes);
  std::vector<std::byte> free(padded.size());
  BitCursor cursor(padded);
  std::vector<size_t> ends;
  for (size_t mcu = 0; mcu < mcu_count; ++mcu) {
    for (const Component& component : components_) {
      for (uint32_t i = 0; i < component.width * component.height; ++i) {
        RETURN_IF_ERROR(read_block(cursor, component, free));
      }
    }
    ends.push_back(cursor.position());
  }
  JpegInterval interval;
  std::vector<uint32_t> size_with(plain.size() + 1);  // the bytes before, as in the file
  for (size_t i = 0; i < plain.size(); ++i) {
    interval.bytes.push_back(plain[i]);
    interval.free_bits.push_back(without_marker(free[i], plain[i]));
    size_with[i + 1] = static_cast<uint32_t>(interval.bytes.size());
    if (plain[i] != std::byte{0xff}) continue;
    interval.bytes.push_back({});
    interval.free_bits.push_back({});
  }
  for (const size_t end : ends) {
    interval.ends.push_back({.size_bytes = size_with[(end + 7) / 8],
                             .last_bits = end % 8 == 0 ? 8 : static_cast<uint32_t>(end % 8)});
  }
  interval.size_bytes = static_cast<uint32_t>(interval.bytes.size());
  constexpr size_t kUnitBytes = JpegInterval::kUnitBytes;
  interval.bytes.resize((interval.bytes.size() + kUnitBytes - 1) / kUnitBytes * kUnitBytes);
  interval.free_bits.resize(interval.bytes.size());
  scan_.intervals.push_back(std::move(interval));
  return {};
}

Result<uint8_t> ScanParser::read_symbol(BitCursor& cursor, const HuffmanTable& table) const {
  if (!cursor.is_within()) return malformed("an interval is too short");
  const Code code = table[cursor.next_16()];
  if (code.bits == 0) return malformed("an unknown Huffman code");
  cursor.skip(code.bits);
  return code.symbol;
}

Status ScanParser::read_block(BitCursor& cursor, const Component& component,
                              std::vector<std::byte>& free) {
  constexpr uint8_t kSixteenZeros = 0xf0;
  ASSIGN_OR_RETURN(const uint8_t dc_bits, read_symbol(cursor, dc_[component.dc]));
  cursor.skip(dc_bits);
  for (size_t i = 1; i < kBlockCoefficients;) {
    ASSIGN_OR_RETURN(const uint8_t symbol, read_symbol(cursor, ac_[component.ac]));
    const size_t bits = symbol & 15;
    if (bits == 0 && symbol != kSixteenZeros) break;
    i += size_t{symbol} / 16 + 1;
    const size_t first = cursor.position();
    cursor.skip(bits);
    if (i > kBlockCoefficients || !cursor.is_within()) return malformed("a block is too long");
    for (size_t at = first; at < first + bits; ++at) {
      free[at / 8] |= std::byte{0x80} >> (at % 8);
    }
  }
  return cursor.is_within() ? Status() : malformed("an interval is too short");
}

}  // namespace

Result<JpegScan> parse_jpeg_scan(ByteView jpeg) { return ScanParser(jpeg).parse(); }

}  // namespace millrace::bench
