#include "store/pack/codec.h"

#include <zstd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "store/pack/lz4.h"

namespace millrace::store {
namespace {

using wire::kPackBlockBytes;
using wire::kPackBlockRaw;
using wire::PackCodec;

constexpr int kZstdLevel = 3;
constexpr size_t kSamplePieces = 4;
constexpr size_t kSamplePieceBytes = size_t{8} << 10;
// zstd decompresses more slowly than lz4 (docs/design/store.md), so it must save a fifth more.
constexpr double kZstdGainMin = 0.2;
// A shuffle costs time too, and a small gain may be an accident of the sample.
constexpr double kShuffleGainMin = 0.1;

// All first bytes of the elements, then all second bytes, and so on. The compiler makes vector code
// of both directions, since the ranges do not overlap.
template <unsigned kElementBytes, bool kBack>
void transpose(const std::byte* __restrict in, size_t count, std::byte* __restrict out) {
  for (size_t i = 0; i < count; ++i) {
    for (unsigned b = 0; b < kElementBytes; ++b) {
      const size_t apart = b * count + i;
      const size_t together = i * kElementBytes + b;
      out[kBack ? together : apart] = in[kBack ? apart : together];
    }
  }
}

// The bytes after the last whole element stay.
template <bool kBack>
void shuffle_bytes(unsigned element_bytes, ByteView in, MutableByteView out) {
  const size_t count = in.size() / element_bytes;
  if (element_bytes == 2) transpose<2, kBack>(in.data(), count, out.data());
  if (element_bytes == 4) transpose<4, kBack>(in.data(), count, out.data());
  if (element_bytes == 8) transpose<8, kBack>(in.data(), count, out.data());
  for (size_t i = count * element_bytes; i < in.size(); ++i) out[i] = in[i];
}

struct FreeZstd {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

bool gains(size_t packed_bytes, size_t size_bytes, double gain_min) {
  return static_cast<double>(packed_bytes) < static_cast<double>(size_bytes) * (1 - gain_min);
}

}  // namespace

struct BlockCodec::State {
  std::unique_ptr<ZSTD_CCtx, FreeZstd> compressor;  // made when needed
  std::unique_ptr<ZSTD_DCtx, FreeZstd> decompressor;
  std::vector<std::byte> shuffled;
  std::vector<std::byte> packed;
  std::vector<std::byte> sample;
  std::vector<std::byte> decoded;
};

BlockCodec::BlockCodec() : state_(std::make_unique<State>()) {}
BlockCodec::BlockCodec(BlockCodec&&) noexcept = default;
BlockCodec::~BlockCodec() = default;

std::string encoding_name(Encoding encoding) {
  constexpr std::array<std::string_view, 3> kNames = {"raw", "lz4", "zstd"};
  const auto codec = static_cast<size_t>(encoding.codec);
  const std::string_view name = codec < kNames.size() ? kNames[codec] : "unknown";
  if (encoding.shuffle == 0) return std::string(name);
  return fmt::format("{} after a shuffle of {} bytes", name, encoding.shuffle);
}

Status check_encoding(Encoding encoding, uint64_t packed_bytes, uint64_t size_bytes) {
  const uint8_t shuffle = encoding.shuffle;
  const bool is_raw = encoding.codec == PackCodec::kRaw;
  const bool is_shuffle = !is_raw && (shuffle == 2 || shuffle == 4 || shuffle == 8);
  if (encoding.codec > PackCodec::kZstd || (shuffle != 0 && !is_shuffle)) {
    return fail(Errc::kUnsupported, "its codec ({}, {}) is unknown to this version; upgrade",
                static_cast<unsigned>(encoding.codec), shuffle);
  }
  if (!is_raw || packed_bytes == size_bytes) return {};
  return fail(Errc::kCorrupt, "it is stored raw in {} bytes, but has {}", packed_bytes, size_bytes);
}

// The length of the result, which is in state_->packed; bytes.size() if it would not be shorter.
size_t BlockCodec::compressed_size(Encoding encoding, ByteView bytes) {
  const ByteView input = encoding.shuffle == 0 ? bytes : shuffled(encoding.shuffle, bytes);
  state_->packed.resize(bytes.size());
  size_t length = 0;
  if (encoding.codec == PackCodec::kLz4) {
    length = lz4_compress(input, state_->packed);
  } else {
    if (!state_->compressor) state_->compressor.reset(ZSTD_createCCtx());
    length = ZSTD_compressCCtx(state_->compressor.get(), state_->packed.data(),
                               state_->packed.size(), input.data(), input.size(), kZstdLevel);
    if (ZSTD_isError(length) != 0) length = 0;  // it did not fit
  }
  return length == 0 ? bytes.size() : length;
}

ByteView BlockCodec::shuffled(unsigned element_bytes, ByteView bytes) {
  state_->shuffled.resize(bytes.size());
  shuffle_bytes<false>(element_bytes, bytes, state_->shuffled);
  return state_->shuffled;
}

Encoding BlockCodec::choose(CodecChoice choice, ByteView bytes) {
  if (choice == CodecChoice::kNone || bytes.empty()) return {};
  ByteView sample = bytes;
  if (bytes.size() > kSamplePieces * kSamplePieceBytes) {
    state_->sample.clear();
    for (size_t i = 0; i < kSamplePieces; ++i) {
      // At a multiple of 64 bytes, so that elements stay whole.
      const size_t at = (bytes.size() - kSamplePieceBytes) / (kSamplePieces - 1) * i / 64 * 64;
      const ByteView piece = bytes.subspan(at, kSamplePieceBytes);
      state_->sample.insert(state_->sample.end(), piece.begin(), piece.end());
    }
    sample = state_->sample;
  }
  // Which shuffle helps is about the elements, so the fast codec can answer it for both.
  const PackCodec fast = check_lz4().ok() ? PackCodec::kLz4 : PackCodec::kZstd;
  Encoding best{.codec = fast};
  size_t best_bytes = compressed_size(best, sample);
  for (const uint8_t element_bytes : {uint8_t{4}, uint8_t{2}, uint8_t{8}}) {
    const Encoding tried{.codec = fast, .shuffle = element_bytes};
    const size_t tried_bytes = compressed_size(tried, sample);
    if (!gains(tried_bytes, best_bytes, kShuffleGainMin)) continue;
    best = tried;
    best_bytes = tried_bytes;
  }
  if (choice != CodecChoice::kLz4) {
    const Encoding zstd{.codec = PackCodec::kZstd, .shuffle = best.shuffle};
    const size_t zstd_bytes = compressed_size(zstd, sample);
    if (choice == CodecChoice::kZstd || gains(zstd_bytes, best_bytes, kZstdGainMin)) {
      best = zstd;
      best_bytes = zstd_bytes;
    }
  }
  return gains(best_bytes, sample.size(), kGainMin) ? best : Encoding{};
}

uint32_t BlockCodec::encode(Encoding encoding, ByteView block, std::vector<std::byte>& out) {
  const size_t length = compressed_size(encoding, block);
  if (length >= block.size()) {
    out.insert(out.end(), block.begin(), block.end());
    return static_cast<uint32_t>(block.size()) | kPackBlockRaw;
  }
  const auto begin = state_->packed.begin();
  out.insert(out.end(), begin, begin + static_cast<std::ptrdiff_t>(length));
  return static_cast<uint32_t>(length);
}

bool BlockCodec::encode_member(Encoding encoding, ByteView member, std::vector<std::byte>& out) {
  if (encoding.codec == PackCodec::kRaw) return false;
  const size_t before = out.size();
  std::vector<uint32_t> table;
  for (size_t at = 0; at < member.size(); at += kPackBlockBytes) {
    const ByteView block = member.subspan(at, std::min(member.size() - at, kPackBlockBytes));
    table.push_back(encode(encoding, block, out));
  }
  const ByteView words = std::as_bytes(std::span(table));
  out.insert(out.end(), words.begin(), words.end());
  if (gains(out.size() - before, member.size(), kGainMin)) return true;
  out.resize(before);
  return false;
}

Result<std::vector<PackedBlock>> split_blocks(Encoding encoding, ByteView packed,
                                              uint64_t size_bytes) {
  RETURN_IF_ERROR(check_encoding(encoding, packed.size(), size_bytes));
  const bool is_raw = encoding.codec == PackCodec::kRaw;
  const uint64_t count = size_bytes / kPackBlockBytes + (size_bytes % kPackBlockBytes != 0);
  const uint64_t table_bytes = is_raw ? 0 : count * sizeof(uint32_t);
  // Before the count is used: a damaged length must not fill the memory.
  if (count > packed.size() || table_bytes > packed.size()) {
    return fail(Errc::kCorrupt, "{} bytes are too few for {} blocks", packed.size(), count);
  }
  const size_t table_at = packed.size() - static_cast<size_t>(table_bytes);
  std::vector<PackedBlock> blocks;
  blocks.reserve(static_cast<size_t>(count));
  size_t at = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const auto size =
        static_cast<size_t>(std::min(size_bytes - i * kPackBlockBytes, uint64_t{kPackBlockBytes}));
    uint32_t word = static_cast<uint32_t>(size) | kPackBlockRaw;
    if (!is_raw) std::memcpy(&word, packed.data() + table_at + i * sizeof(word), sizeof(word));
    const bool is_raw_block = (word & kPackBlockRaw) != 0;
    const size_t length = word & ~kPackBlockRaw;
    if (length > table_at - at || (is_raw_block && length != size)) {
      return fail(Errc::kCorrupt, "block {} of {} bytes claims {} bytes, and {} are left", i, size,
                  length, table_at - at);
    }
    blocks.push_back({packed.subspan(at, length), size, is_raw_block});
    at += length;
  }
  if (at == table_at) return blocks;
  return fail(Errc::kCorrupt, "{} bytes after its last block belong to nothing", table_at - at);
}

Status BlockCodec::decode(Encoding encoding, const PackedBlock& block, MutableByteView out) {
  if (block.is_raw) {
    if (!out.empty()) std::memcpy(out.data(), block.bytes.data(), out.size());
    return {};
  }
  MutableByteView to = out;
  if (encoding.shuffle != 0) {
    state_->shuffled.resize(out.size());
    to = state_->shuffled;
  }
  bool is_good = false;
  if (encoding.codec == PackCodec::kLz4) {
    RETURN_IF_ERROR(check_lz4());
    is_good = lz4_decompress(block.bytes, to);
  } else {
    if (!state_->decompressor) state_->decompressor.reset(ZSTD_createDCtx());
    is_good = ZSTD_decompressDCtx(state_->decompressor.get(), to.data(), to.size(),
                                  block.bytes.data(), block.bytes.size()) == to.size();
  }
  if (!is_good) {
    return fail(Errc::kCorrupt, "{} bytes are not a block of {} bytes, compressed with {}",
                block.bytes.size(), out.size(), encoding_name(encoding));
  }
  if (encoding.shuffle != 0) shuffle_bytes<true>(encoding.shuffle, to, out);
  return {};
}

Status BlockCodec::decode_member(Encoding encoding, ByteView packed, MutableByteView out) {
  ASSIGN_OR_RETURN(const auto blocks, split_blocks(encoding, packed, out.size()));
  size_t at = 0;
  for (const PackedBlock& block : blocks) {
    RETURN_IF_ERROR(decode(encoding, block, out.subspan(at, block.size_bytes)));
    at += block.size_bytes;
  }
  return {};
}

Status BlockCodec::decode_blocks(Encoding encoding, ByteView packed, uint64_t size_bytes,
                                 const EachBlock& each) {
  ASSIGN_OR_RETURN(const auto blocks, split_blocks(encoding, packed, size_bytes));
  for (const PackedBlock& block : blocks) {
    ByteView bytes = block.bytes;
    if (!block.is_raw) {
      state_->decoded.resize(block.size_bytes);
      RETURN_IF_ERROR(decode(encoding, block, state_->decoded));
      bytes = state_->decoded;
    }
    RETURN_IF_ERROR(each(bytes));
  }
  return {};
}

}  // namespace millrace::store
