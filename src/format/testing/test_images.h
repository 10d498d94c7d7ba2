// Images for tests of decoders: smooth, with some noise, so that they compress like photographs.
#pragma once

#include <cmath>

#include "base/numbers/random.h"
#include "image/image.h"

namespace millrace::format {

inline image::Pixels test_image(image::Size size, uint64_t seed = 1) {
  Random random(seed);
  image::Pixels pixels(size);
  for (size_t i = 0; i < pixels.bytes.size(); ++i) {
    const double x = static_cast<double>(i / 3 % size.width);
    const double y = static_cast<double>(i / 3 / size.width);
    const double wave = std::sin(x / 9 + static_cast<double>(i % 3)) + std::cos(y / 7);
    pixels.bytes[i] = static_cast<uint8_t>(127 + 50 * wave + static_cast<double>(random.below(20)));
  }
  return pixels;
}

}  // namespace millrace::format
