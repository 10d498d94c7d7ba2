// PermutationLanes for processors with AVX-512: 16 numbers at a time (permutation_wide.h).
#include "base/permutation_lanes.h"

#ifdef __AVX512DQ__
#include <immintrin.h>

#define MILLRACE_WIDE [[gnu::always_inline]] inline

namespace millrace {
namespace {

// Two registers: while one waits for a product, the other has its own.
struct Numbers {
  static constexpr size_t kCount = 16;
  __m512i first;
  __m512i second;
};

MILLRACE_WIDE Numbers all(uint64_t value) {
  const __m512i one = _mm512_set1_epi64(static_cast<long long>(value));
  return {one, one};
}
MILLRACE_WIDE __m512i load_half(const uint64_t* from) { return _mm512_loadu_si512(from); }
MILLRACE_WIDE Numbers load(const uint64_t* from) {
  return {load_half(from), load_half(from + Numbers::kCount / 2)};
}
MILLRACE_WIDE void store(uint64_t* to, const Numbers& a) {
  _mm512_storeu_si512(to, a.first);
  _mm512_storeu_si512(to + Numbers::kCount / 2, a.second);
}
MILLRACE_WIDE Numbers product(const Numbers& a, const Numbers& b) {
  return {_mm512_mul_epu32(a.first, b.first), _mm512_mul_epu32(a.second, b.second)};
}
MILLRACE_WIDE Numbers sum(const Numbers& a, const Numbers& b) {
  return {_mm512_add_epi64(a.first, b.first), _mm512_add_epi64(a.second, b.second)};
}
MILLRACE_WIDE Numbers difference(const Numbers& a, const Numbers& b) {
  return {_mm512_sub_epi64(a.first, b.first), _mm512_sub_epi64(a.second, b.second)};
}
MILLRACE_WIDE Numbers sum32(const Numbers& a, const Numbers& b) {
  return {_mm512_add_epi32(a.first, b.first), _mm512_add_epi32(a.second, b.second)};
}
MILLRACE_WIDE Numbers difference32(const Numbers& a, const Numbers& b) {
  return {_mm512_sub_epi32(a.first, b.first), _mm512_sub_epi32(a.second, b.second)};
}
MILLRACE_WIDE Numbers least32(const Numbers& a, const Numbers& b) {
  return {_mm512_min_epu32(a.first, b.first), _mm512_min_epu32(a.second, b.second)};
}
MILLRACE_WIDE Numbers exclusive(const Numbers& a, const Numbers& b) {
  return {_mm512_xor_si512(a.first, b.first), _mm512_xor_si512(a.second, b.second)};
}
MILLRACE_WIDE Numbers both(const Numbers& a, const Numbers& b) {
  return {_mm512_and_si512(a.first, b.first), _mm512_and_si512(a.second, b.second)};
}
template <int shift>
MILLRACE_WIDE Numbers moved_up(const Numbers& a) {
  return {_mm512_slli_epi64(a.first, shift), _mm512_slli_epi64(a.second, shift)};
}
template <int shift>
MILLRACE_WIDE Numbers moved_down(const Numbers& a) {
  return {_mm512_srli_epi64(a.first, shift), _mm512_srli_epi64(a.second, shift)};
}
MILLRACE_WIDE Numbers upper(const Numbers& a) { return moved_down<32>(a); }
// All ones where a > b; else nothing.
MILLRACE_WIDE Numbers is_above(const Numbers& a, const Numbers& b) {
  return {_mm512_movm_epi64(_mm512_cmpgt_epu64_mask(a.first, b.first)),
          _mm512_movm_epi64(_mm512_cmpgt_epu64_mask(a.second, b.second))};
}
MILLRACE_WIDE bool is_nothing(const Numbers& a) {
  const __m512i any = _mm512_or_si512(a.first, a.second);
  return _mm512_test_epi64_mask(any, any) == 0;
}
// Of all ones a, of nothing b.
MILLRACE_WIDE Numbers chosen(const Numbers& which, const Numbers& a, const Numbers& b) {
  return {_mm512_mask_blend_epi64(_mm512_movepi64_mask(which.first), b.first, a.first),
          _mm512_mask_blend_epi64(_mm512_movepi64_mask(which.second), b.second, a.second)};
}

}  // namespace
}  // namespace millrace

#include "base/permutation_wide.h"
#endif

namespace millrace {

const PermutationLanes* avx512_permutation_lanes() {
#ifdef __AVX512DQ__
  return &kWideLanes;
#else
  return nullptr;
#endif
}

}  // namespace millrace
