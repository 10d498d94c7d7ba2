// Crop: which part of an image becomes the sample, and whether it is mirrored.
//
// Rules and defaults are those of torchvision's transforms RandomResizedCrop, Resize with
// CenterCrop, and RandomHorizontalFlip, so that a recipe can be ported. The random numbers are our
// own (CounterRandom): equal keys give equal crops on every machine.
#pragma once

#include "base/numbers/counter_random.h"
#include "image/image.h"

namespace millrace::image {

// A part of an image whose edges may lie between pixels.
struct Box {
  double x = 0;
  double y = 0;
  double width = 0;
  double height = 0;
};

struct Crop {
  Box box;
  Rect bounds;  // the pixels a filter may read; contains the box
  bool flip = false;
};

// How an image of some size becomes a sample of another: what masks and boxes need to follow it.
struct Framing {
  Size image;
  Crop crop;    // of the image
  Size target;  // what the crop is resized to
};

struct RandomCropOptions {
  double area_min = 0.08;  // fraction of the image's area
  double area_max = 1.0;
  double ratio_min = 3.0 / 4.0;  // width / height
  double ratio_max = 4.0 / 3.0;
};

// Tries ten times to draw an area and a ratio that fit, then takes the largest centred part within
// the ratios. Filters stay inside the crop, as if it were cut out first.
Crop random_resized_crop(Size image, const RandomCropOptions& options, CounterRandom& random);

// Resizes the shorter side to `resize_to`, then takes `target` from the middle.
// REQUIRES: target fits into resize_to x resize_to.
Crop centre_crop(Size image, uint32_t resize_to, Size target);

Crop whole_image(Size image);

// The same crop in an image decoded at `eighths` / 8 of its size, which is `decoded`.
Crop scaled_crop(const Crop& crop, uint32_t eighths, Size decoded);

}  // namespace millrace::image
