#include "bench/generate/images/stored_png.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/io/gzip.h"

namespace millrace::bench {
namespace {

constexpr std::string_view kSignature = "\x89PNG\r\n\x1A\n";
constexpr size_t kHeaderBytes = 13;        // IHDR
constexpr size_t kChunkFrameBytes = 12;    // length, type, checksum
constexpr size_t kStoredBytesMax = 65535;  // of a block of deflate
constexpr size_t kStoredHeadBytes = 5;     // whether it is the last, length, inverted length
constexpr size_t kZlibHeadBytes = 2;
constexpr size_t kAdlerBytes = 4;

size_t row_bytes_of(image::Size size, bool is_gray) {
  return size_t{size.width} * (is_gray ? 1 : image::kChannels);
}

// Each row begins with the number of its filter.
size_t filtered_bytes(image::Size size, bool is_gray) {
  return size.height * (row_bytes_of(size, is_gray) + 1);
}

// Writes chunks one after another.
class ChunkOutput {
 public:
  explicit ChunkOutput(MutableByteView out) : out_(out) {}

  void put(std::string_view text) {
    std::memcpy(next(text.size()).data(), text.data(), text.size());
  }
  void put_number(uint32_t value) {  // big-endian
    const MutableByteView bytes = next(sizeof(value));
    for (size_t i = 0; i < sizeof(value); ++i) {
      bytes[i] = static_cast<std::byte>(value >> (24 - 8 * i));
    }
  }
  MutableByteView next(size_t size_bytes) {
    const MutableByteView bytes = out_.subspan(used_, size_bytes);
    used_ += size_bytes;
    return bytes;
  }

  void begin_chunk(std::string_view type, size_t body_bytes) {
    put_number(static_cast<uint32_t>(body_bytes));
    chunk_at_ = used_;
    put(type);
  }
  void end_chunk() { put_number(zip_crc32(out_.subspan(chunk_at_, used_ - chunk_at_))); }

 private:
  MutableByteView out_;
  size_t used_ = 0;
  size_t chunk_at_ = 0;
};

// Copies a part of the filtered rows: all have filter 0, which leaves them as they are.
void copy_filtered(const PngPixels& pixels, size_t offset, MutableByteView out) {
  const size_t row_bytes = row_bytes_of(pixels.size, pixels.is_gray);
  const std::byte* row = pixels.bytes.data() + offset / (row_bytes + 1) * row_bytes;
  size_t column = offset % (row_bytes + 1);
  while (!out.empty()) {
    if (column == 0) {
      out[0] = {};
      out = out.subspan(1);
      ++column;
    }
    const size_t count = std::min(out.size(), row_bytes + 1 - column);
    std::memcpy(out.data(), row + column - 1, count);
    out = out.subspan(count);
    row += row_bytes;
    column = 0;
  }
}

void put_stored_head(bool is_last, size_t size_bytes, ChunkOutput& out) {
  const MutableByteView head = out.next(kStoredHeadBytes);
  head[0] = static_cast<std::byte>(is_last ? 1 : 0);
  head[1] = static_cast<std::byte>(size_bytes);
  head[2] = static_cast<std::byte>(size_bytes >> 8);
  head[3] = ~head[1];
  head[4] = ~head[2];
}

constexpr uint32_t kModulus = 65521;
constexpr size_t kLanes = 32;
constexpr size_t kLaneBytes = 22;  // of a piece: then 16 bits hold the sums of a lane
constexpr size_t kPieceBytes = kLanes * kLaneBytes;

// The sum of the bytes, and the sum of all those sums.
struct AdlerSums {
  uint32_t low = 0;
  uint32_t high = 0;
};

// The lanes of a piece do not depend on each other, so that compilers use vector instructions.
// REQUIRES: whole pieces.
[[gnu::always_inline]] inline void add_pieces(AdlerSums& sums, ByteView bytes) {
  const auto* from = reinterpret_cast<const uint8_t*>(bytes.data());
  const uint8_t* end = from + bytes.size();
  while (from != end) {
    std::array<uint16_t, kLanes> now{};
    std::array<uint16_t, kLanes> before{};  // the sum of all earlier values of `now`
    for (size_t i = 0; i < kLaneBytes; ++i, from += kLanes) {
      for (size_t lane = 0; lane < kLanes; ++lane) {
        before[lane] = static_cast<uint16_t>(before[lane] + now[lane]);
        now[lane] = static_cast<uint16_t>(now[lane] + from[lane]);
      }
    }
    uint32_t sum = 0;
    uint32_t weighted = 0;
    for (size_t lane = 0; lane < kLanes; ++lane) {
      sum += now[lane];
      weighted += before[lane] * uint32_t{kLanes};
      weighted += now[lane] * static_cast<uint32_t>(kLanes - lane);
    }
    sums.high = (sums.high + sums.low * uint32_t{kPieceBytes} + weighted) % kModulus;
    sums.low = (sums.low + sum) % kModulus;
  }
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) void add_pieces_avx2(AdlerSums& sums, ByteView bytes) {
  add_pieces(sums, bytes);
}
#endif

}  // namespace

size_t stored_png_bytes(image::Size size, bool is_gray) {
  const size_t filtered = filtered_bytes(size, is_gray);
  const size_t chunk_count = (filtered + kStoredBytesMax - 1) / kStoredBytesMax;
  return kSignature.size() + kChunkFrameBytes + kHeaderBytes +
         chunk_count * (kChunkFrameBytes + kStoredHeadBytes) + filtered + kZlibHeadBytes +
         kAdlerBytes + kChunkFrameBytes;
}

void write_stored_png(const PngPixels& pixels, MutableByteView out) {
  ChunkOutput chunks(out);
  chunks.put(kSignature);
  chunks.begin_chunk("IHDR", kHeaderBytes);
  chunks.put_number(pixels.size.width);
  chunks.put_number(pixels.size.height);
  // 8 bits, gray or RGB, and the only methods that there are.
  chunks.put(pixels.is_gray ? std::string_view("\x08\0\0\0\0", 5)
                            : std::string_view("\x08\x02\0\0\0", 5));
  chunks.end_chunk();
  const size_t filtered = filtered_bytes(pixels.size, pixels.is_gray);
  uint32_t adler = 1;
  for (size_t at = 0; at < filtered;) {
    const size_t count = std::min(filtered - at, kStoredBytesMax);
    const bool is_last = at + count == filtered;
    chunks.begin_chunk("IDAT", (at == 0 ? kZlibHeadBytes : 0) + kStoredHeadBytes + count +
                                   (is_last ? kAdlerBytes : 0));
    if (at == 0) chunks.put("\x78\x01");
    put_stored_head(is_last, count, chunks);
    const MutableByteView block = chunks.next(count);
    copy_filtered(pixels, at, block);
    adler = adler32(block, adler);
    if (is_last) chunks.put_number(adler);
    chunks.end_chunk();
    at += count;
  }
  chunks.begin_chunk("IEND", 0);
  chunks.end_chunk();
}

uint32_t adler32(ByteView bytes, uint32_t before) {
  AdlerSums sums{.low = before & 0xffff, .high = before >> 16};
  const size_t whole = bytes.size() / kPieceBytes * kPieceBytes;
#if defined(__x86_64__)
  static const bool has_avx2 = __builtin_cpu_supports("avx2") != 0;
  has_avx2 ? add_pieces_avx2(sums, bytes.first(whole)) : add_pieces(sums, bytes.first(whole));
#else
  add_pieces(sums, bytes.first(whole));
#endif
  for (const std::byte byte : bytes.subspan(whole)) {
    sums.low = (sums.low + std::to_integer<uint32_t>(byte)) % kModulus;
    sums.high = (sums.high + sums.low) % kModulus;
  }
  return sums.high << 16 | sums.low;
}

}  // namespace millrace::bench
