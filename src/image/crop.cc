#include "image/crop.h"

#include <algorithm>
#include <cmath>

namespace millrace::image {
namespace {

Crop cut_out(const Rect& rect) {
  return {.box = {static_cast<double>(rect.x), static_cast<double>(rect.y),
                  static_cast<double>(rect.width), static_cast<double>(rect.height)},
          .bounds = rect};
}

uint32_t rounded(double value) { return static_cast<uint32_t>(std::nearbyint(value)); }

Rect centred(Size image, uint32_t width, uint32_t height) {
  return {(image.width - width) / 2, (image.height - height) / 2, width, height};
}

Rect largest_within(Size image, const RandomCropOptions& options) {
  const double ratio = static_cast<double>(image.width) / image.height;
  uint32_t width = image.width;
  uint32_t height = image.height;
  if (ratio < options.ratio_min) height = rounded(width / options.ratio_min);
  if (ratio > options.ratio_max) width = rounded(height * options.ratio_max);
  return centred(image, std::clamp(width, 1u, image.width), std::clamp(height, 1u, image.height));
}

}  // namespace

Crop random_resized_crop(Size image, const RandomCropOptions& options, CounterRandom& random) {
  const double area = static_cast<double>(image.width) * image.height;
  const double log_min = std::log(options.ratio_min);
  const double log_max = std::log(options.ratio_max);
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double wanted =
        area * (options.area_min + (options.area_max - options.area_min) * random.uniform());
    const double ratio = std::exp(log_min + (log_max - log_min) * random.uniform());
    const double width = std::nearbyint(std::sqrt(wanted * ratio));
    const double height = std::nearbyint(std::sqrt(wanted / ratio));
    if (width < 1 || height < 1 || width > image.width || height > image.height) continue;
    Rect rect{.width = static_cast<uint32_t>(width), .height = static_cast<uint32_t>(height)};
    rect.y = static_cast<uint32_t>(random.below(image.height - rect.height + 1));
    rect.x = static_cast<uint32_t>(random.below(image.width - rect.width + 1));
    return cut_out(rect);
  }
  return cut_out(largest_within(image, options));
}

Crop centre_crop(Size image, uint32_t resize_to, Size target) {
  const double shorter = std::min(image.width, image.height);
  // Rounded down, as in torchvision; the shorter side is exact. Floating point, because the side of
  // a 1 x 1,000,000 image would overflow 32 bits.
  const auto resized = [&](uint32_t side) {
    return std::floor(static_cast<double>(resize_to) * side / shorter);
  };
  const double width = resized(image.width);
  const double height = resized(image.height);
  const double x_scale = image.width / width;
  const double y_scale = image.height / height;
  const double left = std::nearbyint((width - target.width) / 2.0);
  const double top = std::nearbyint((height - target.height) / 2.0);
  return {.box = {left * x_scale, top * y_scale, target.width * x_scale, target.height * y_scale},
          .bounds = {0, 0, image.width, image.height}};
}

Crop whole_image(Size image) { return cut_out({0, 0, image.width, image.height}); }

Crop scaled_crop(const Crop& crop, uint32_t eighths, Size decoded) {
  const double scale = eighths / 8.0;
  const auto first = [&](uint32_t at) { return static_cast<uint32_t>(at * scale); };
  const auto last = [&](uint32_t at, uint32_t end) {
    return std::min(static_cast<uint32_t>(std::ceil(at * scale)), end);
  };
  Crop scaled{.box = {crop.box.x * scale, crop.box.y * scale, crop.box.width * scale,
                      crop.box.height * scale},
              .flip = crop.flip};
  scaled.bounds.x = first(crop.bounds.x);
  scaled.bounds.y = first(crop.bounds.y);
  scaled.bounds.width = last(crop.bounds.x + crop.bounds.width, decoded.width) - scaled.bounds.x;
  scaled.bounds.height = last(crop.bounds.y + crop.bounds.height, decoded.height) - scaled.bounds.y;
  return scaled;
}

}  // namespace millrace::image
