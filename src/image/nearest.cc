#include "image/nearest.h"

#include <algorithm>
#include <cmath>

namespace millrace::image {
namespace {

constexpr uint64_t kAddedStepsMax = 1 << 16;

}  // namespace

void nearest_pixels(const Axis& axis, std::vector<uint32_t>& pixels) {
  const double step = axis.size / axis.output_count;
  // Pillow resizes what is in bounds and then cuts the outputs out of it.
  const auto skipped =
      static_cast<uint64_t>(std::max(0.0, std::nearbyint((axis.begin - axis.bounds_begin) / step)));
  const uint32_t last = axis.bounds_end - axis.bounds_begin - 1;
  pixels.resize(axis.output_count);
  // Pillow adds up the steps. A multiplication would round differently when the centre of an output
  // is exactly between two pixels. But an image of one row may have a million columns to skip.
  double at = step * 0.5;
  if (skipped > kAddedStepsMax) {
    at += static_cast<double>(skipped) * step;
  } else {
    for (uint64_t i = 0; i < skipped; ++i) at += step;
  }
  for (uint32_t i = 0; i < axis.output_count; ++i, at += step) {
    const auto pixel = static_cast<uint32_t>(std::min<double>(at, last));
    pixels[axis.mirrored ? axis.output_count - 1 - i : i] = axis.bounds_begin + pixel;
  }
}

}  // namespace millrace::image
