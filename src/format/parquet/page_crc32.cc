#include "format/parquet/page_crc32.h"

#include "base/gzip.h"

#if defined(__x86_64__)
#include <emmintrin.h>
#include <smmintrin.h>
#include <wmmintrin.h>

#include <array>
#endif

namespace millrace::format::parquet {

#if defined(__x86_64__)
namespace {

#define MILLRACE_FOLD_TARGET __attribute__((target("pclmul,sse4.1")))

constexpr uint32_t kPolynomial = 0xedb88320;  // reflected

constexpr auto make_bytes() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    table[byte] = crc;
  }
  return table;
}

constexpr auto kBytes = make_bytes();

// Powers of x modulo the polynomial, reflected: they move 128 bits forward by a distance.
struct Distance {
  int64_t low;
  int64_t high;
};
constexpr Distance kBy64Bytes = {0x154442bd4, 0x1c6e41596};
constexpr Distance kBy16Bytes = {0x1751997d0, 0x0ccaa009e};
constexpr Distance kBy8Bytes = {0x163cd6124, 0};
// The polynomial with its highest bit, and its inverse, for Barrett's reduction.
constexpr Distance kReduction = {0x1db710641, 0x1f7011641};

MILLRACE_FOLD_TARGET inline __m128i constant(Distance distance) {
  return _mm_set_epi64x(distance.high, distance.low);
}

MILLRACE_FOLD_TARGET inline __m128i load(const std::byte* from) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}

// `value`, moved forward, plus `next`.
MILLRACE_FOLD_TARGET inline __m128i fold(__m128i value, __m128i distance, __m128i next) {
  const __m128i low = _mm_clmulepi64_si128(value, distance, 0x00);
  const __m128i high = _mm_clmulepi64_si128(value, distance, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

MILLRACE_FOLD_TARGET uint32_t reduce(__m128i value) {
  const __m128i words = _mm_setr_epi32(~0, 0, ~0, 0);
  // 128 bits to 96, to 64.
  value = _mm_xor_si128(_mm_srli_si128(value, 8),
                        _mm_clmulepi64_si128(value, constant(kBy16Bytes), 0x10));
  const __m128i rest = _mm_srli_si128(value, 4);
  value = _mm_clmulepi64_si128(_mm_and_si128(value, words), constant(kBy8Bytes), 0x00);
  value = _mm_xor_si128(value, rest);
  const __m128i reduction = constant(kReduction);
  __m128i quotient = _mm_clmulepi64_si128(_mm_and_si128(value, words), reduction, 0x10);
  quotient = _mm_clmulepi64_si128(_mm_and_si128(quotient, words), reduction, 0x00);
  return static_cast<uint32_t>(_mm_extract_epi32(_mm_xor_si128(value, quotient), 1));
}

// Four independent sums of 16 bytes keep the multiplier busy. REQUIRES: at least 64 bytes.
MILLRACE_FOLD_TARGET uint32_t crc32_by_folding(ByteView bytes) {
  const std::byte* at = bytes.data();
  size_t left = bytes.size();
  __m128i sums[4];
  for (int i = 0; i < 4; ++i) sums[i] = load(at + 16 * i);
  sums[0] = _mm_xor_si128(sums[0], _mm_cvtsi32_si128(-1));
  const __m128i by_64 = constant(kBy64Bytes);
  const __m128i by_16 = constant(kBy16Bytes);
  for (at += 64, left -= 64; left >= 64; at += 64, left -= 64) {
    for (int i = 0; i < 4; ++i) sums[i] = fold(sums[i], by_64, load(at + 16 * i));
  }
  __m128i sum = sums[0];
  for (int i = 1; i < 4; ++i) sum = fold(sum, by_16, sums[i]);
  for (; left >= 16; at += 16, left -= 16) sum = fold(sum, by_16, load(at));
  uint32_t crc = reduce(sum);
  for (; left > 0; ++at, --left) {
    crc = (crc >> 8) ^ kBytes[(crc ^ std::to_integer<uint32_t>(*at)) & 0xff];
  }
  return ~crc;
}

}  // namespace

uint32_t page_crc32(ByteView bytes) {
  static const bool can_fold =
      __builtin_cpu_supports("pclmul") != 0 && __builtin_cpu_supports("sse4.1") != 0;
  return can_fold && bytes.size() >= 64 ? crc32_by_folding(bytes) : zip_crc32(bytes);
}

#else

uint32_t page_crc32(ByteView bytes) { return zip_crc32(bytes); }

#endif

}  // namespace millrace::format::parquet
