#include "image/boxes.h"

#include <algorithm>

namespace millrace::image {
namespace {

struct Edges {
  double left = 0;
  double top = 0;
  double right = 0;
  double bottom = 0;
};

Edges edges_of(const BoxNumbers& box, BoxFormat format) {
  switch (format) {
    case BoxFormat::kXyxy:
      break;
    case BoxFormat::kXywh:
      return {box[0], box[1], box[0] + box[2], box[1] + box[3]};
    case BoxFormat::kCxcywh:
      return {box[0] - box[2] / 2, box[1] - box[3] / 2, box[0] + box[2] / 2, box[1] + box[3] / 2};
  }
  return {box[0], box[1], box[2], box[3]};
}

BoxNumbers numbers_of(const Edges& edges, BoxFormat format) {
  const double width = edges.right - edges.left;
  const double height = edges.bottom - edges.top;
  switch (format) {
    case BoxFormat::kXyxy:
      break;
    case BoxFormat::kXywh:
      return {edges.left, edges.top, width, height};
    case BoxFormat::kCxcywh:
      return {edges.left + width / 2, edges.top + height / 2, width, height};
  }
  return {edges.left, edges.top, edges.right, edges.bottom};
}

Edges scaled(const Edges& edges, double x, double y) {
  return {edges.left * x, edges.top * y, edges.right * x, edges.bottom * y};
}

}  // namespace

std::optional<BoxNumbers> framed_box(const BoxNumbers& box, const Framing& framing,
                                     const BoxOptions& options) {
  Edges edges = edges_of(box, options.format);
  if (options.is_normalized) edges = scaled(edges, framing.image.width, framing.image.height);
  const Box& crop = framing.crop.box;
  const double width = framing.target.width;
  const double height = framing.target.height;
  edges =
      scaled({edges.left - crop.x, edges.top - crop.y, edges.right - crop.x, edges.bottom - crop.y},
             width / crop.width, height / crop.height);
  if (framing.crop.flip) {
    const double left = edges.left;
    edges.left = width - edges.right;
    edges.right = width - left;
  }
  edges = {std::clamp(edges.left, 0.0, width), std::clamp(edges.top, 0.0, height),
           std::clamp(edges.right, 0.0, width), std::clamp(edges.bottom, 0.0, height)};
  // A box with its edges the wrong way round has no area.
  edges.right = std::max(edges.left, edges.right);
  edges.bottom = std::max(edges.top, edges.bottom);
  const double box_width = edges.right - edges.left;
  const double box_height = edges.bottom - edges.top;
  if (std::min(box_width, box_height) < options.side_min ||
      box_width * box_height < options.area_min) {
    return std::nullopt;
  }
  if (options.is_normalized) edges = scaled(edges, 1 / width, 1 / height);
  return numbers_of(edges, options.format);
}

}  // namespace millrace::image
