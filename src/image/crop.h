// Crop: which part of an image becomes the sample, and whether mirrored.
//
// The rules and the defaults are those of torchvision's transforms of the same names, so that a
// recipe can be moved: RandomResizedCrop, Resize with CenterCrop, RandomHorizontalFlip. The numbers
// drawn are our own (CounterRandom): equal keys give equal crops on every machine.
#pragma once

#include "base/counter_random.h"
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
  Rect bounds;  // the pixels a filter may look at; around the box, or more
  bool flip = false;
};

struct RandomCropOptions {
  double area_min = 0.08;  // of the image's
  double area_max = 1.0;
  double ratio_min = 3.0 / 4.0;  // width to height
  double ratio_max = 4.0 / 3.0;
};

// Ten tries to draw an area and a ratio that fit, then the largest centred part within the ratios.
// Filters stay inside the crop, as if it were cut out first.
Crop random_resized_crop(Size image, const RandomCropOptions& options, CounterRandom& random);

// The shorter side resized to `resize_to`, then `target` from the middle.
// REQUIRES: target fits into resize_to x resize_to.
Crop centre_crop(Size image, uint32_t resize_to, Size target);

Crop whole_image(Size image);

// The same crop in an image decoded at `eighths` / 8 of its size, which is `decoded`.
Crop scaled_crop(const Crop& crop, uint32_t eighths, Size decoded);

}  // namespace millrace::image
