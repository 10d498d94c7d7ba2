#include "base/hash/crc32_fold.h"

#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace millrace {

#if defined(__x86_64__)
namespace {

#define MILLRACE_FOLD_TARGET __attribute__((target("pclmul,sse4.1")))

constexpr size_t kLanes = 4;
constexpr size_t kStepBytes = kLanes * sizeof(__m128i);

MILLRACE_FOLD_TARGET inline __m128i load(const std::byte* from) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}

// Moves `value` over the distance that `factors` stand for, onto `onto`.
MILLRACE_FOLD_TARGET inline __m128i folded(__m128i value, __m128i factors, __m128i onto) {
  const __m128i low = _mm_clmulepi64_si128(value, factors, 0x00);
  const __m128i high = _mm_clmulepi64_si128(value, factors, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, high), onto);
}

// REQUIRES: at least kStepBytes bytes.
MILLRACE_FOLD_TARGET Crc32Folded fold_by_multiplication(ByteView bytes, uint32_t before) {
  // Powers of x modulo the polynomial, with their bits reversed: x^(512 + 32), x^(512 - 32), and
  // x^(128 + 32), x^(128 - 32). Gopal et al., "Fast CRC Computation Using PCLMULQDQ", 2009.
  const __m128i by_four = _mm_set_epi64x(0x01c6e41596, 0x0154442bd4);
  const __m128i by_one = _mm_set_epi64x(0x00ccaa009e, 0x01751997d0);
  const std::byte* at = bytes.data();
  const std::byte* end = at + bytes.size() / sizeof(__m128i) * sizeof(__m128i);
  __m128i lanes[kLanes];
  for (size_t i = 0; i < kLanes; ++i) lanes[i] = load(at + i * sizeof(__m128i));
  lanes[0] = _mm_xor_si128(lanes[0], _mm_cvtsi32_si128(static_cast<int>(before)));
  at += kStepBytes;
  for (; static_cast<size_t>(end - at) >= kStepBytes; at += kStepBytes) {
    for (size_t i = 0; i < kLanes; ++i) {
      lanes[i] = folded(lanes[i], by_four, load(at + i * sizeof(__m128i)));
    }
  }
  __m128i all = lanes[0];
  for (size_t i = 1; i < kLanes; ++i) all = folded(all, by_one, lanes[i]);
  for (; at < end; at += sizeof(__m128i)) all = folded(all, by_one, load(at));
  Crc32Folded result{.size_bytes = static_cast<size_t>(at - bytes.data())};
  std::memcpy(result.bytes.data(), &all, sizeof(all));
  return result;
}

}  // namespace

Crc32Folded crc32_fold(ByteView bytes, uint32_t before) {
  static const bool can_fold =
      __builtin_cpu_supports("pclmul") != 0 && __builtin_cpu_supports("sse4.1") != 0;
  if (!can_fold || bytes.size() < kStepBytes) return {};
  return fold_by_multiplication(bytes, before);
}

#else

Crc32Folded crc32_fold(ByteView bytes, uint32_t before) {
  static_cast<void>(bytes), static_cast<void>(before);
  return {};
}

#endif

}  // namespace millrace
