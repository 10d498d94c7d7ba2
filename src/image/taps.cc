#include "image/taps.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>

namespace millrace::image {
namespace {

// 255 << 22 is the largest sum that fits into 32 bits.
constexpr uint32_t kMaxPrecisionBits = 22;

double radius_of(const Axis& axis) {
  const double step = axis.size / axis.output_count;
  return axis.antialias ? std::max(step, 1.0) : 1.0;
}

}  // namespace

void Taps::make(const Axis& axis) {
  assert(axis.bounds_begin < axis.bounds_end && axis.size > 0 && axis.output_count > 0);
  // A half-open interval of length 2r contains the centres of at most ceil(2r) pixels.
  const auto most = static_cast<uint32_t>(std::ceil(2 * radius_of(axis)));
  stride_ = (most + 3) / 4 * 4;
  begins_.resize(axis.output_count);
  counts_.resize(axis.output_count);
  exact_.assign(size_t{axis.output_count} * stride_, 0.0);
  for (uint32_t i = 0; i < axis.output_count; ++i) weigh(axis, i, &exact_[size_t{i} * stride_]);

  const double largest = *std::max_element(exact_.begin(), exact_.end());
  // Not 32767, because rounding may raise the largest weight by one.
  precision_bits_ = kMaxPrecisionBits;
  while (largest * static_cast<double>(1u << precision_bits_) > 32766) --precision_bits_;
  weights_.resize(exact_.size());
  for (uint32_t i = 0; i < axis.output_count; ++i) round_weights(i, &exact_[size_t{i} * stride_]);

  window_begin_ = *std::min_element(begins_.begin(), begins_.end());
  window_end_ = 0;
  is_identity_ = true;
  for (uint32_t i = 0; i < axis.output_count; ++i) {
    window_end_ = std::max(window_end_, begins_[i] + counts_[i]);
    begins_[i] -= window_begin_;
    is_identity_ = is_identity_ && begins_[i] == i && counts_[i] == 1;
  }
}

void Taps::weigh(const Axis& axis, uint32_t output, double* room) {
  const uint32_t place = axis.mirrored ? axis.output_count - 1 - output : output;
  const double radius = radius_of(axis);
  const double centre = axis.begin + (place + 0.5) * axis.size / axis.output_count;
  const double lowest = axis.bounds_begin;
  const double highest = axis.bounds_end;
  const double begin = std::clamp(std::floor(centre - radius + 0.5), lowest, highest - 1);
  const double end = std::clamp(std::floor(centre + radius + 0.5), begin + 1, highest);
  begins_[output] = static_cast<uint32_t>(begin);
  counts_[output] = std::min(static_cast<uint32_t>(end - begin), stride_);
  double sum = 0;
  for (uint32_t k = 0; k < counts_[output]; ++k) {
    room[k] = std::max(0.0, 1.0 - std::abs(begin + k + 0.5 - centre) / radius);
    sum += room[k];
  }
  // The last pixel may lie exactly where the triangle ends.
  if (counts_[output] > 1 && room[counts_[output] - 1] == 0) --counts_[output];
  // Rounding may put the box outside its bounds. Then take the nearest pixel alone.
  if (sum <= 0) room[0] = sum = 1;
  for (uint32_t k = 0; k < counts_[output]; ++k) room[k] /= sum;
}

// Each weight absorbs the rounding error of those before it, so that the sum is exact.
void Taps::round_weights(uint32_t output, const double* exact) {
  int16_t* rounded = weights_.data() + size_t{output} * stride_;
  const double one = static_cast<double>(1u << precision_bits_);
  double sum = 0;
  int32_t given = 0;
  for (uint32_t k = 0; k < stride_; ++k) {
    sum += exact[k];
    const auto upto = static_cast<int32_t>(std::lround(sum * one));
    rounded[k] = static_cast<int16_t>(upto - given);
    given = upto;
  }
  assert(given == 1 << precision_bits_);
}

}  // namespace millrace::image
