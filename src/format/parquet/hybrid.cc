#include "format/parquet/hybrid.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

namespace millrace::format::parquet {
namespace {

// More than any page has, and small enough to multiply.
constexpr uint64_t kCountMax = uint64_t{1} << 40;

struct Run {
  bool is_packed = false;
  uint32_t value = 0;  // of a run of equal numbers
  uint64_t count = 0;
  ByteView packed;  // of a bit-packed run; may end early at the end of the stream
};

// Reads the runs of a stream, one after another.
class HybridRuns {
 public:
  HybridRuns(ByteView stream, int bits) : stream_(stream), bits_(bits) {}

  Result<Run> next() {
    uint64_t head = 0;
    for (int shift = 0;; shift += 7) {
      if (shift > 56 || at_ == stream_.size()) return ends_early();
      const auto byte = std::to_integer<uint64_t>(stream_[at_++]);
      head |= (byte & 0x7f) << shift;
      if (byte < 0x80) break;
    }
    Run run;
    run.is_packed = (head & 1) != 0;
    run.count = std::min(head >> 1, kCountMax);
    return run.is_packed ? packed(run) : repeated(run);
  }

 private:
  Error ends_early() const {
    return fail(Errc::kCorrupt, "its levels or indexes end early, after {} bytes", stream_.size());
  }

  size_t left() const { return stream_.size() - at_; }

  Result<Run> packed(Run run) {
    const uint64_t groups = run.count;
    // The last group may be cut: some writers do not pad it.
    const auto bytes =
        static_cast<size_t>(std::min<uint64_t>(left(), groups * static_cast<uint64_t>(bits_)));
    run.packed = stream_.subspan(at_, bytes);
    run.count = bits_ == 0 ? groups * 8
                           : std::min<uint64_t>(groups * 8, bytes * uint64_t{8} / unsigned(bits_));
    at_ += bytes;
    if (run.count == 0 && at_ == stream_.size()) return ends_early();
    return run;
  }

  Result<Run> repeated(Run run) {
    const auto bytes = static_cast<size_t>((bits_ + 7) / 8);
    if (left() < bytes) return ends_early();
    if (bytes != 0) std::memcpy(&run.value, stream_.data() + at_, bytes);
    at_ += bytes;
    if (bits_ < 32 && run.value >> bits_ != 0) {
      return fail(Errc::kCorrupt, "a run of {}-bit numbers has the value {}", bits_, run.value);
    }
    return run;
  }

  ByteView stream_;
  int bits_;
  size_t at_ = 0;
};

// Numbers whose eight bytes are within the stream. With the number of bits as a constant, the
// compiler unrolls and vectorizes it.
template <int kBits, typename T>
void unpack_groups(const std::byte* in, T* out, size_t group_count) {
  constexpr uint64_t kMask = (uint64_t{1} << kBits) - 1;
  for (size_t group = 0; group < group_count; ++group, in += kBits, out += 8) {
    for (int i = 0; i < 8; ++i) {
      const int bit = i * kBits;
      uint64_t word = 0;
      std::memcpy(&word, in + bit / 8, sizeof(word));
      out[i] = static_cast<T>(word >> (bit % 8) & kMask);
    }
  }
}

template <typename T>
using UnpackGroups = void (*)(const std::byte* in, T* out, size_t group_count);

template <typename T, int... kBits>
constexpr auto unpack_table(std::integer_sequence<int, kBits...>) {
  return std::array<UnpackGroups<T>, sizeof...(kBits)>{&unpack_groups<kBits, T>...};
}

template <typename T, int kBitsMax>
void unpack(ByteView packed, int bits, T* out, size_t count) {
  static constexpr auto kUnpack = unpack_table<T>(std::make_integer_sequence<int, kBitsMax + 1>());
  // A group reads up to eight bytes from its last byte on.
  const size_t usable = packed.size() < 8 ? 0 : packed.size() - 8;
  const size_t groups =
      bits == 0 ? count / 8 : std::min(count / 8, usable / static_cast<size_t>(bits));
  if (groups > 0) kUnpack[static_cast<size_t>(bits)](packed.data(), out, groups);
  for (size_t i = groups * 8; i < count; ++i) {
    const size_t bit = i * static_cast<size_t>(bits);
    uint64_t word = 0;
    const size_t at = std::min(bit / 8, packed.size());
    const size_t bytes = std::min<size_t>(8, packed.size() - at);
    if (bytes != 0) std::memcpy(&word, packed.data() + at, bytes);
    out[i] = static_cast<T>(word >> (bit % 8) & ((uint64_t{1} << bits) - 1));
  }
}

template <typename T, int kBitsMax>
Status decode_all(HybridRuns& runs, int bits, std::span<T> out, size_t done) {
  while (done < out.size()) {
    ASSIGN_OR_RETURN(const Run run, runs.next());
    const auto count = static_cast<size_t>(std::min<uint64_t>(run.count, out.size() - done));
    if (run.is_packed) {
      unpack<T, kBitsMax>(run.packed, bits, out.data() + done, count);
    } else {
      std::fill_n(out.data() + done, count, static_cast<T>(run.value));
    }
    done += count;
  }
  return {};
}

}  // namespace

int bits_for(uint64_t max) { return static_cast<int>(std::bit_width(max)); }

Status decode_hybrid(ByteView stream, int bits, std::span<uint32_t> out) {
  if (bits < 0 || bits > 32) {
    return fail(Errc::kCorrupt, "its indexes have {} bits; at most 32 are possible", bits);
  }
  HybridRuns runs(stream, bits);
  return decode_all<uint32_t, 32>(runs, bits, out, 0);
}

Result<bool> decode_levels(ByteView stream, int bits, std::span<uint8_t> out) {
  if (out.empty()) return false;
  HybridRuns runs(stream, bits);
  ASSIGN_OR_RETURN(const Run first, runs.next());
  if (!first.is_packed && first.count >= out.size()) {
    out[0] = static_cast<uint8_t>(first.value);
    return true;
  }
  HybridRuns again(stream, bits);
  RETURN_IF_ERROR((decode_all<uint8_t, 8>(again, bits, out, 0)));
  return false;
}

void HybridEncoder::add(uint32_t value, uint64_t count) {
  while (count > 0) {
    if (group_count_ == 0 && count >= 8) return put_repeated(value, count);
    group_[group_count_++] = value;
    --count;
    if (group_count_ == 8) put_group();
  }
}

void HybridEncoder::put_repeated(uint32_t value, uint64_t count) {
  end_packed();
  for (uint64_t head = count << 1;; head >>= 7) {
    out_ += static_cast<char>(head >= 0x80 ? head | 0x80 : head);
    if (head < 0x80) break;
  }
  for (int bit = 0; bit < bits_; bit += 8) out_ += static_cast<char>(value >> bit);
}

void HybridEncoder::put_group() {
  char bytes[40];  // eight numbers of 32 bits, and a word of which only a part counts
  uint64_t word = 0;
  int filled = 0;
  size_t size = 0;
  for (const uint32_t number : group_) {
    word |= uint64_t{number} << filled;
    filled += bits_;
    std::memcpy(bytes + size, &word, sizeof(word));
    const int whole = filled / 8;
    size += static_cast<size_t>(whole);
    word >>= whole * 8;
    filled -= whole * 8;
  }
  packed_.append(bytes, static_cast<size_t>(bits_));
  group_count_ = 0;
}

void HybridEncoder::end_packed() {
  if (packed_.empty()) return;
  const size_t groups = packed_.size() / static_cast<size_t>(bits_);
  for (uint64_t head = groups << 1 | 1;; head >>= 7) {
    out_ += static_cast<char>(head >= 0x80 ? head | 0x80 : head);
    if (head < 0x80) break;
  }
  out_ += packed_;
  packed_.clear();
}

void HybridEncoder::finish() {
  if (group_count_ > 0) {
    std::fill(group_ + group_count_, group_ + 8, 0U);
    put_group();
  }
  end_packed();
}

}  // namespace millrace::format::parquet
