// nearest: resizes by repeating or leaving out pixels, for values that cannot be blended, such as
// the classes of a mask.
//
// An output takes the pixel under its centre, with the rounding of Pillow: a mask that follows its
// image is the one that torchvision's resized_crop gives with NEAREST on PIL images.
#pragma once

#include <cstdint>
#include <vector>

#include "image/taps.h"

namespace millrace::image {

// The pixel of each output. REQUIRES: what Taps::make() does.
void nearest_pixels(const Axis& axis, std::vector<uint32_t>& pixels);

}  // namespace millrace::image
