#include "trace/pack/numbers.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace millrace::trace {
namespace {

// Values of the format.
constexpr uint8_t kZigzag = 1;
enum PlaneCoding : uint8_t { kRaw = 0, kConstant = 1, kCompressed = 2 };

// Below this count, the header of a frame outweighs the gain.
constexpr size_t kCompressedCountMin = 48;
constexpr size_t kEstimateCount = 2048;
constexpr size_t kFactorSample = 64;

unsigned bytes_needed(uint64_t value) {
  return static_cast<unsigned>(std::bit_width(value) + 7) / 8;
}

struct Range {
  uint64_t min;
  uint64_t max;
};

Range unsigned_range(std::span<const uint64_t> values) {
  uint64_t min = values[0];
  uint64_t max = values[0];
  for (const uint64_t value : values) {
    min = std::min(min, value);
    max = std::max(max, value);
  }
  return {min, max};
}

Range signed_range(std::span<const uint64_t> values) {
  auto min = static_cast<int64_t>(values[0]);
  auto max = min;
  for (const uint64_t value : values) {
    min = std::min(min, static_cast<int64_t>(value));
    max = std::max(max, static_cast<int64_t>(value));
  }
  return {static_cast<uint64_t>(min), static_cast<uint64_t>(max)};
}

// The greatest common divisor. Cheap in the common cases: a power of two, or 1. The factor of a
// sample is checked against all values.
uint64_t common_factor(std::span<const uint64_t> values) {
  uint64_t all_bits = 0;
  for (const uint64_t value : values) all_bits |= value;
  if (all_bits == 0) return 1;
  const uint64_t power_of_two = all_bits & (~all_bits + 1);
  uint64_t factor = 0;
  for (const uint64_t value : values.first(std::min(values.size(), kFactorSample))) {
    factor = std::gcd(factor, value);
    if (factor == power_of_two) return power_of_two;
  }
  for (const uint64_t value : values) {
    if (factor != 0 && value % factor == 0) continue;
    factor = std::gcd(factor, value);
    if (factor == power_of_two) return power_of_two;
  }
  return factor == 0 ? 1 : factor;
}

template <unsigned kWidth>
void join_planes(const std::byte* planes, size_t count, uint64_t bias, uint64_t factor,
                 uint64_t* out) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(planes);
  for (size_t i = 0; i < count; ++i) {
    uint64_t q = 0;
    for (unsigned plane = 0; plane < kWidth; ++plane) {
      q |= static_cast<uint64_t>(bytes[plane * count + i]) << (8 * plane);
    }
    out[i] = bias + factor * q;
  }
}

using JoinPlanes = void (*)(const std::byte*, size_t, uint64_t, uint64_t, uint64_t*);
constexpr JoinPlanes kJoinPlanes[] = {nullptr,        join_planes<1>, join_planes<2>,
                                      join_planes<3>, join_planes<4>, join_planes<5>,
                                      join_planes<6>, join_planes<7>, join_planes<8>};

}  // namespace

void NumbersEncoder::encode(std::span<const uint64_t> values, Signedness signedness,
                            BytesOut& out) {
  if (values.empty()) return;
  work_.assign(values.begin(), values.end());
  uint8_t flags = 0;
  Range range = signedness == Signedness::kSigned ? signed_range(work_) : unsigned_range(work_);
  // A few large negative numbers would shift all others by an odd amount. Zigzag encoding keeps
  // small numbers small.
  if (signedness == Signedness::kSigned && static_cast<int64_t>(range.min) < 0 &&
      bytes_needed(range.max - range.min) > 2) {
    flags |= kZigzag;
    for (uint64_t& value : work_) value = zigzag(static_cast<int64_t>(value));
    range = unsigned_range(work_);
  }
  if (range.min != 0) {
    for (uint64_t& value : work_) value -= range.min;
  }
  const uint64_t factor = range.min == range.max ? 1 : common_factor(work_);
  const unsigned width = bytes_needed((range.max - range.min) / factor);
  out.put(static_cast<uint8_t>(width));
  out.put(flags);
  out.put_signed(static_cast<int64_t>(range.min));
  if (width > 0) encode_planes(factor, width, out);
}

void NumbersEncoder::encode_planes(uint64_t factor, unsigned width, BytesOut& out) {
  out.put_varint(factor);
  if (std::has_single_bit(factor)) {
    const int shift = std::countr_zero(factor);
    if (shift != 0) {
      for (uint64_t& value : work_) value >>= shift;
    }
  } else {
    for (uint64_t& value : work_) value /= factor;
  }
  plane_.resize(work_.size());
  for (unsigned plane = 0; plane < width; ++plane) {
    auto* bytes = reinterpret_cast<uint8_t*>(plane_.data());
    const unsigned shift = 8 * plane;
    uint8_t differing = 0;
    for (size_t i = 0; i < work_.size(); ++i) {
      bytes[i] = static_cast<uint8_t>(work_[i] >> shift);
      differing |= static_cast<uint8_t>(bytes[i] ^ bytes[0]);
    }
    if (differing == 0) {
      out.put(kConstant);
      out.put(plane_[0]);
      continue;
    }
    if (plane_.size() >= kCompressedCountMin) {
      trial_.clear();
      // A gain below 3 % is not worth the time of every reader.
      const size_t length =
          compressor_.append(plane_, plane_.size() - plane_.size() / 32, trial_.buffer());
      if (length > 0) {
        out.put(kCompressed);
        out.put_varint(length);
        out.append(trial_.view());
        continue;
      }
    }
    out.put(kRaw);
    out.append(plane_);
  }
}

size_t NumbersEncoder::estimate(std::span<const uint64_t> values, Signedness signedness) {
  BytesOut out;
  encode(values.first(std::min(values.size(), kEstimateCount)), signedness, out);
  return out.size();
}

Status NumbersDecoder::read_plane(ByteReader& in, MutableByteView plane) {
  ASSIGN_OR_RETURN(const auto coding, in.read<uint8_t>());
  switch (coding) {
    case kRaw: {
      ASSIGN_OR_RETURN(const ByteView bytes, in.take(plane.size()));
      std::memcpy(plane.data(), bytes.data(), plane.size());
      return {};
    }
    case kConstant: {
      ASSIGN_OR_RETURN(const auto byte, in.read<uint8_t>());
      std::memset(plane.data(), byte, plane.size());
      return {};
    }
    case kCompressed: {
      ASSIGN_OR_RETURN(const uint64_t length, in.read_varint());
      ASSIGN_OR_RETURN(const ByteView frame, in.take(length));
      return decompressor_.decompress(frame, plane);
    }
    default:
      return fail(Errc::kCorrupt, "byte {} has the unknown plane coding {}", in.position() - 1,
                  coding);
  }
}

Status NumbersDecoder::decode(ByteReader& in, std::span<uint64_t> values) {
  if (values.empty()) return {};
  ASSIGN_OR_RETURN(const auto width, in.read<uint8_t>());
  ASSIGN_OR_RETURN(const auto flags, in.read<uint8_t>());
  ASSIGN_OR_RETURN(const uint64_t folded_bias, in.read_varint());
  const auto bias = static_cast<uint64_t>(unzigzag(folded_bias));
  if (width > 8 || (flags & ~kZigzag) != 0) {
    return fail(Errc::kCorrupt,
                "byte {} describes a column of width {} and flags {}, which no "
                "version writes",
                in.position(), width, flags);
  }
  if (width == 0) {
    std::fill(values.begin(), values.end(), bias);
  } else {
    ASSIGN_OR_RETURN(const uint64_t factor, in.read_varint());
    const size_t count = values.size();
    if (planes_.size() < count * width) planes_.resize(count * width);
    for (unsigned plane = 0; plane < width; ++plane) {
      RETURN_IF_ERROR(read_plane(in, MutableByteView(planes_).subspan(plane * count, count)));
    }
    kJoinPlanes[width](planes_.data(), count, bias, factor, values.data());
  }
  if ((flags & kZigzag) != 0) {
    for (uint64_t& value : values) value = static_cast<uint64_t>(unzigzag(value));
  }
  return {};
}

}  // namespace millrace::trace
