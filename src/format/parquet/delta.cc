#include "format/parquet/delta.h"

#include <algorithm>
#include <cstring>

namespace millrace::format::parquet {
namespace {

class DeltaReader {
 public:
  explicit DeltaReader(ByteView bytes) : bytes_(bytes) {}

  Result<Deltas> read(size_t count) {
    ASSIGN_OR_RETURN(block_values_, varint());
    ASSIGN_OR_RETURN(miniblock_count_, varint());
    ASSIGN_OR_RETURN(const uint64_t total, varint());
    ASSIGN_OR_RETURN(uint64_t value, zigzag());
    if (total != count || miniblock_count_ == 0 || block_values_ > 1 << 24 ||
        block_values_ % miniblock_count_ != 0 || block_values_ / miniblock_count_ % 8 != 0 ||
        block_values_ == 0) {
      return fail(Errc::kCorrupt, "its deltas claim {} values in blocks of {} x {}, of {}", total,
                  miniblock_count_, block_values_, count);
    }
    Deltas out;
    out.values.reserve(std::min<size_t>(count, bytes_.size() * 64));
    if (count > 0) out.values.push_back(static_cast<int64_t>(value));
    while (out.values.size() < count) RETURN_IF_ERROR(block(count, value, out.values));
    out.size_bytes = at_;
    return out;
  }

 private:
  Error ends_early() const {
    return fail(Errc::kCorrupt, "its deltas end early, after {} bytes", bytes_.size());
  }

  Result<uint64_t> varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (at_ == bytes_.size()) return ends_early();
      const auto byte = std::to_integer<uint64_t>(bytes_[at_++]);
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    return fail(Errc::kCorrupt, "a delta has more than 64 bits");
  }

  // Unsigned, because sums of deltas wrap around.
  Result<uint64_t> zigzag() {
    ASSIGN_OR_RETURN(const uint64_t value, varint());
    return value >> 1 ^ (~(value & 1) + 1);
  }

  Status block(size_t count, uint64_t& value, std::vector<int64_t>& out) {
    ASSIGN_OR_RETURN(const uint64_t least, zigzag());
    if (miniblock_count_ > bytes_.size() - at_) return ends_early();
    const ByteView widths = bytes_.subspan(at_, static_cast<size_t>(miniblock_count_));
    at_ += widths.size();
    const uint64_t values = block_values_ / miniblock_count_;
    for (size_t i = 0; i < widths.size() && out.size() < count; ++i) {
      const auto bits = std::to_integer<unsigned>(widths[i]);
      const uint64_t size = values / 8 * bits;
      if (bits > 64 || size > bytes_.size() - at_) return ends_early();
      const ByteView packed = bytes_.subspan(at_, static_cast<size_t>(size));
      at_ += packed.size();
      const size_t wanted = std::min<size_t>(count - out.size(), static_cast<size_t>(values));
      for (size_t k = 0; k < wanted; ++k) {
        value += least + number(packed, k * bits, bits);
        out.push_back(static_cast<int64_t>(value));
      }
    }
    return {};
  }

  static uint64_t number(ByteView packed, size_t bit, unsigned bits) {
    if (bits == 0) return 0;
    uint64_t words[2] = {};
    const size_t at = bit / 8;
    std::memcpy(words, packed.data() + at, std::min<size_t>(9, packed.size() - at));
    const unsigned shift = bit % 8;
    uint64_t value = words[0] >> shift;
    if (shift != 0) value |= words[1] << (64 - shift);
    return bits == 64 ? value : value & ((uint64_t{1} << bits) - 1);
  }

  ByteView bytes_;
  size_t at_ = 0;
  uint64_t block_values_ = 0;
  uint64_t miniblock_count_ = 0;
};

}  // namespace

Result<Deltas> decode_deltas(ByteView bytes, size_t count) {
  return DeltaReader(bytes).read(count);
}

}  // namespace millrace::format::parquet
