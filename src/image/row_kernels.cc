#include "image/row_kernels.h"

#include <algorithm>
#include <cstring>

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace millrace::image {
namespace {

constexpr size_t kBlockBytes = 64;  // a cache line; few enough sums to stay in registers

uint8_t to_byte(int32_t sum, uint32_t precision_bits) {
  // Weights are not negative and add up to one, so the sum is never out of range.
  return static_cast<uint8_t>(sum >> precision_bits);
}

void blend_rows_plain(std::span<const uint8_t* const> rows, const int16_t* weights,
                      uint32_t precision_bits, size_t size_bytes, uint8_t* out) {
  const int32_t half = 1 << (precision_bits - 1);
  for (size_t x = 0; x < size_bytes; x += kBlockBytes) {
    int32_t sums[kBlockBytes];
    std::fill_n(sums, kBlockBytes, half);
    for (size_t k = 0; k < rows.size(); k += 2) {
      const uint8_t* first = rows[k] + x;
      const uint8_t* second = rows[k + 1] + x;
      const int16_t first_weight = weights[k];
      const int16_t second_weight = weights[k + 1];
      for (size_t i = 0; i < kBlockBytes; ++i) {
        sums[i] += first_weight * static_cast<int16_t>(first[i]) +
                   second_weight * static_cast<int16_t>(second[i]);
      }
    }
    for (size_t i = 0; i < kBlockBytes; ++i) out[x + i] = to_byte(sums[i], precision_bits);
  }
}

void resample_row_plain(const uint8_t* row, const Taps& taps, uint8_t* out) {
  const uint32_t bits = taps.precision_bits();
  for (uint32_t i = 0; i < taps.output_count(); ++i) {
    const uint8_t* pixel = row + size_t{taps.begin(i)} * 3;
    const int16_t* weights = taps.weights(i);
    // Four sums fill a vector; the last one is ignored.
    int32_t sums[4];
    std::fill_n(sums, 4, 1 << (bits - 1));
    for (uint32_t k = 0; k < taps.count(i); ++k, pixel += 3) {
      for (size_t c = 0; c < 4; ++c) sums[c] += weights[k] * pixel[c];
    }
    for (size_t c = 0; c < 4; ++c) out[i * kWidePixelBytes + c] = to_byte(sums[c], bits);
  }
}

void split_row_plain(const uint8_t* row, size_t pixel_count, uint8_t* red, uint8_t* green,
                     uint8_t* blue) {
  for (size_t x = 0; x < pixel_count; ++x) {
    red[x] = row[x * 3];
    green[x] = row[x * 3 + 1];
    blue[x] = row[x * 3 + 2];
  }
}

#ifdef __x86_64__

// Two adjacent weights in each 32-bit lane, as madd needs them.
[[gnu::target("avx2")]] inline __m256i weight_pair(const int16_t* weights) {
  int32_t pair;
  std::memcpy(&pair, weights, sizeof pair);
  return _mm256_set1_epi32(pair);
}

[[gnu::target("avx2")]] inline __m256i load_bytes(const uint8_t* bytes) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes));
}

[[gnu::target("avx2")]] void blend_rows_avx2(std::span<const uint8_t* const> rows,
                                             const int16_t* weights, uint32_t precision_bits,
                                             size_t size_bytes, uint8_t* out) {
  const __m256i zero = _mm256_setzero_si256();
  const __m256i half = _mm256_set1_epi32(1 << (precision_bits - 1));
  const __m128i bits = _mm_cvtsi32_si128(static_cast<int>(precision_bits));
  for (size_t x = 0; x < size_bytes; x += sizeof(__m256i)) {
    __m256i sum0 = half, sum1 = half, sum2 = half, sum3 = half;
    for (size_t k = 0; k < rows.size(); k += 2) {
      const __m256i pair = weight_pair(weights + k);
      const __m256i first = load_bytes(rows[k] + x);
      const __m256i second = load_bytes(rows[k + 1] + x);
      const __m256i low = _mm256_unpacklo_epi8(first, second);
      const __m256i high = _mm256_unpackhi_epi8(first, second);
      const auto add = [&](__m256i& sum, __m256i words)
                           __attribute__((target("avx2"), always_inline)) {
                             sum = _mm256_add_epi32(sum, _mm256_madd_epi16(words, pair));
                           };
      add(sum0, _mm256_unpacklo_epi8(low, zero));
      add(sum1, _mm256_unpackhi_epi8(low, zero));
      add(sum2, _mm256_unpacklo_epi8(high, zero));
      add(sum3, _mm256_unpackhi_epi8(high, zero));
    }
    const __m256i low =
        _mm256_packs_epi32(_mm256_sra_epi32(sum0, bits), _mm256_sra_epi32(sum1, bits));
    const __m256i high =
        _mm256_packs_epi32(_mm256_sra_epi32(sum2, bits), _mm256_sra_epi32(sum3, bits));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + x), _mm256_packus_epi16(low, high));
  }
}

// Four taps. Their pixels are widened to words, two taps in each half of a register.
[[gnu::target("avx2")]] inline __m256i four_taps(const uint8_t* pixel, const int16_t* weights) {
  constexpr char kNone = -128;
  const __m256i spread = _mm256_setr_epi8(
      0, kNone, 3, kNone, 1, kNone, 4, kNone, 2, kNone, 5, kNone, kNone, kNone, kNone, kNone,  //
      6, kNone, 9, kNone, 7, kNone, 10, kNone, 8, kNone, 11, kNone, kNone, kNone, kNone, kNone);
  const __m256i pairs = _mm256_setr_epi8(0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3,  //
                                         4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7);
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(pixel));
  int64_t four;
  std::memcpy(&four, weights, sizeof four);
  const __m256i words = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(bytes), spread);
  const __m256i factors = _mm256_shuffle_epi8(_mm256_set1_epi64x(four), pairs);
  return _mm256_madd_epi16(words, factors);
}

// What a loop reads of the taps, kept in registers. A store through a byte pointer may alias
// anything, so the compiler would otherwise reload all of it after each store.
struct TapsView {
  const uint32_t* begins;
  const int16_t* weights;
  uint32_t stride;
};

template <bool kHasFour>  // at most four taps, the usual case
[[gnu::target("avx2")]] inline __m128i resample_pixel(const uint8_t* row, const TapsView& taps,
                                                      uint32_t output, __m128i half) {
  const uint8_t* pixel = row + size_t{taps.begins[output]} * 3;
  const uint32_t stride = kHasFour ? 4 : taps.stride;
  const int16_t* weights = taps.weights + size_t{output} * stride;
  __m256i sum = four_taps(pixel, weights);
  for (uint32_t k = 4; k < stride; k += 4) {
    sum = _mm256_add_epi32(sum, four_taps(pixel + k * 3, weights + k));
  }
  const __m128i upper = _mm_add_epi32(_mm256_extracti128_si256(sum, 1), half);
  return _mm_add_epi32(_mm256_castsi256_si128(sum), upper);
}

template <bool kHasFour>
[[gnu::target("avx2")]] void resample_outputs(const uint8_t* row, const TapsView& taps,
                                              uint32_t output_count, uint32_t precision_bits,
                                              uint8_t* out) {
  const __m128i half = _mm_set1_epi32(1 << (precision_bits - 1));
  const __m128i bits = _mm_cvtsi32_si128(static_cast<int>(precision_bits));
  const uint32_t last = output_count - 1;
  for (uint32_t i = 0; i <= last; i += 4) {
    __m128i sums[4];
    for (uint32_t j = 0; j < 4; ++j) {
      const __m128i sum = resample_pixel<kHasFour>(row, taps, std::min(i + j, last), half);
      sums[j] = _mm_sra_epi32(sum, bits);
    }
    const __m128i words01 = _mm_packs_epi32(sums[0], sums[1]);
    const __m128i words23 = _mm_packs_epi32(sums[2], sums[3]);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + size_t{i} * kWidePixelBytes),
                     _mm_packus_epi16(words01, words23));
  }
}

[[gnu::target("avx2")]] void resample_row_avx2(const uint8_t* row, const Taps& taps, uint8_t* out) {
  const TapsView view{taps.begins(), taps.weights(0), taps.stride()};
  const auto resample = view.stride == 4 ? &resample_outputs<true> : &resample_outputs<false>;
  resample(row, view, taps.output_count(), taps.precision_bits(), out);
}

// Extracts one channel of 16 pixels in three registers. `first` is its offset in a pixel.
[[gnu::target("avx2")]] inline __m128i channel_of(const __m128i (&pixels)[3], int first) {
  __m128i channel = _mm_setzero_si128();
  for (int r = 0; r < 3; ++r) {
    alignas(16) char from[16];
    for (int i = 0; i < 16; ++i) {
      const int at = i * 3 + first - r * 16;
      from[i] = static_cast<char>(at >= 0 && at < 16 ? at : -128);
    }
    const __m128i order = _mm_load_si128(reinterpret_cast<const __m128i*>(from));
    channel = _mm_or_si128(channel, _mm_shuffle_epi8(pixels[r], order));
  }
  return channel;
}

[[gnu::target("avx2")]] void split_row_avx2(const uint8_t* row, size_t pixel_count, uint8_t* red,
                                            uint8_t* green, uint8_t* blue) {
  size_t x = 0;
  for (; x + 16 <= pixel_count; x += 16) {
    __m128i pixels[3];
    for (size_t r = 0; r < 3; ++r) {
      pixels[r] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(row + x * 3 + r * 16));
    }
    _mm_storeu_si128(reinterpret_cast<__m128i*>(red + x), channel_of(pixels, 0));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(green + x), channel_of(pixels, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(blue + x), channel_of(pixels, 2));
  }
  split_row_plain(row + x * 3, pixel_count - x, red + x, green + x, blue + x);
}

#endif

}  // namespace

RowKernels plain_row_kernels() {
  return {&blend_rows_plain, &resample_row_plain, &split_row_plain};
}

const RowKernels& row_kernels() {
  static const RowKernels kernels = [] {
#ifdef __x86_64__
    // Not function multiversioning (ifunc): with ThreadSanitizer it crashes before main.
    if (__builtin_cpu_supports("avx2"))
      return RowKernels{&blend_rows_avx2, &resample_row_avx2, &split_row_avx2};
#endif
    return plain_row_kernels();
  }();
  return kernels;
}

}  // namespace millrace::image
