// boxes: bounding boxes that follow the crop, resize and flip of their image.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "image/crop.h"

namespace millrace::image {

enum class BoxFormat : uint8_t {
  kXyxy,    // left, top, right, bottom
  kXywh,    // left, top, width, height
  kCxcywh,  // centre x, centre y, width, height
};

struct BoxOptions {
  BoxFormat format = BoxFormat::kXyxy;
  bool is_normalized = false;  // as fractions of the width and height
  // A box that is smaller than one of these within the crop is dropped, as by torchvision's
  // SanitizeBoundingBoxes. If both are 0, none is: one outside the crop keeps its row, without
  // area.
  double side_min = 1;  // in pixels of the target
  double area_min = 1;
};

using BoxNumbers = std::array<double, 4>;  // in the format

// The box within the crop, in the target, or nullopt if it is dropped. The format stays the same.
// REQUIRES: the numbers are finite.
std::optional<BoxNumbers> framed_box(const BoxNumbers& box, const Framing& framing,
                                     const BoxOptions& options);

}  // namespace millrace::image
