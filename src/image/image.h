// image: what happens to pixels between a decoder and a batch: cropping, resizing, conversion.
//
// A pixel is three bytes: red, green, blue. Rows follow each other at a fixed stride. Nothing here
// knows a file format; decoders push rows into a RowSink (row_sink.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace millrace::image {

constexpr size_t kChannels = 3;

struct Size {
  uint32_t width = 0;  // in pixels
  uint32_t height = 0;

  bool operator==(const Size&) const = default;
};

// A part of an image, in whole pixels.
struct Rect {
  uint32_t x = 0;
  uint32_t y = 0;
  uint32_t width = 0;
  uint32_t height = 0;

  bool operator==(const Rect&) const = default;
};

// A view of pixels. Does not own them.
struct ImageView {
  const uint8_t* pixels = nullptr;
  Size size;
  size_t stride_bytes = 0;  // from one row to the next

  const uint8_t* row(uint32_t y) const { return pixels + y * stride_bytes; }
};

// Owns its pixels. No gaps between rows.
struct Pixels {
  Size size;
  std::vector<uint8_t> bytes;

  explicit Pixels(Size of) : size(of), bytes(size_t{of.width} * of.height * kChannels) {}
  ImageView view() const { return {bytes.data(), size, size_t{size.width} * kChannels}; }
};

}  // namespace millrace::image
