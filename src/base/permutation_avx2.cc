// PermutationLanes for processors with AVX2: 8 numbers at a time (permutation_wide.h).
#include "base/permutation_lanes.h"

#ifdef __AVX2__
#include <immintrin.h>

#define MILLRACE_WIDE [[gnu::always_inline]] inline

namespace millrace {
namespace {

// Two registers: while one waits for a product, the other has its own.
struct Numbers {
  static constexpr size_t kCount = 8;
  __m256i first;
  __m256i second;
};

MILLRACE_WIDE Numbers all(uint64_t value) {
  const __m256i one = _mm256_set1_epi64x(static_cast<long long>(value));
  return {one, one};
}
MILLRACE_WIDE __m256i load_half(const uint64_t* from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}
MILLRACE_WIDE Numbers load(const uint64_t* from) {
  return {load_half(from), load_half(from + Numbers::kCount / 2)};
}
MILLRACE_WIDE void store(uint64_t* to, const Numbers& a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), a.first);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + Numbers::kCount / 2), a.second);
}
MILLRACE_WIDE Numbers product(const Numbers& a, const Numbers& b) {
  return {_mm256_mul_epu32(a.first, b.first), _mm256_mul_epu32(a.second, b.second)};
}
MILLRACE_WIDE Numbers sum(const Numbers& a, const Numbers& b) {
  return {_mm256_add_epi64(a.first, b.first), _mm256_add_epi64(a.second, b.second)};
}
MILLRACE_WIDE Numbers difference(const Numbers& a, const Numbers& b) {
  return {_mm256_sub_epi64(a.first, b.first), _mm256_sub_epi64(a.second, b.second)};
}
MILLRACE_WIDE Numbers sum32(const Numbers& a, const Numbers& b) {
  return {_mm256_add_epi32(a.first, b.first), _mm256_add_epi32(a.second, b.second)};
}
MILLRACE_WIDE Numbers difference32(const Numbers& a, const Numbers& b) {
  return {_mm256_sub_epi32(a.first, b.first), _mm256_sub_epi32(a.second, b.second)};
}
MILLRACE_WIDE Numbers least32(const Numbers& a, const Numbers& b) {
  return {_mm256_min_epu32(a.first, b.first), _mm256_min_epu32(a.second, b.second)};
}
MILLRACE_WIDE Numbers exclusive(const Numbers& a, const Numbers& b) {
  return {_mm256_xor_si256(a.first, b.first), _mm256_xor_si256(a.second, b.second)};
}
MILLRACE_WIDE Numbers both(const Numbers& a, const Numbers& b) {
  return {_mm256_and_si256(a.first, b.first), _mm256_and_si256(a.second, b.second)};
}
template <int shift>
MILLRACE_WIDE Numbers moved_up(const Numbers& a) {
  return {_mm256_slli_epi64(a.first, shift), _mm256_slli_epi64(a.second, shift)};
}
template <int shift>
MILLRACE_WIDE Numbers moved_down(const Numbers& a) {
  return {_mm256_srli_epi64(a.first, shift), _mm256_srli_epi64(a.second, shift)};
}
MILLRACE_WIDE Numbers upper(const Numbers& a) { return moved_down<32>(a); }
// All ones where a > b, both below 2^63; else nothing.
MILLRACE_WIDE Numbers is_above(const Numbers& a, const Numbers& b) {
  return {_mm256_cmpgt_epi64(a.first, b.first), _mm256_cmpgt_epi64(a.second, b.second)};
}
MILLRACE_WIDE bool is_nothing(const Numbers& a) {
  const __m256i any = _mm256_or_si256(a.first, a.second);
  return _mm256_testz_si256(any, any) != 0;
}
// Of all ones a, of nothing b.
MILLRACE_WIDE Numbers chosen(const Numbers& which, const Numbers& a, const Numbers& b) {
  return {_mm256_blendv_epi8(b.first, a.first, which.first),
          _mm256_blendv_epi8(b.second, a.second, which.second)};
}

}  // namespace
}  // namespace millrace

#include "base/permutation_wide.h"
#endif

namespace millrace {

const PermutationLanes* avx2_permutation_lanes() {
#ifdef __AVX2__
  return &kWideLanes;
#else
  return nullptr;
#endif
}

}  // namespace millrace
