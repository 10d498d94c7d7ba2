// PNG: decodes and encodes images by libpng.
//
// All kinds become RGB: gray and palettes are expanded, 16 bits lose their lower eight, alpha is
// dropped and not blended, as Pillow's convert("RGB") does. Colour profiles, gamma and text are
// skipped, and take no memory. The header is checked before anything else is read.
// Rows below the wanted part are not decoded; those of an interlaced file all must be. Damaged or
// truncated data is an error. Optional part: png_off.cc says so where it is missing.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/base.h"
#include "base/result.h"
#include "image/image.h"
#include "image/row_sink.h"

namespace millrace::format {

// By its first bytes.
inline bool is_png(ByteView bytes) { return text_of(bytes).starts_with("\x89PNG\r\n\x1A\n"); }

struct PngOptions {
  uint64_t max_pixels = uint64_t{1} << 27;  // what a header may claim before memory is spent on it
};

// One thread at a time.
class PngReader {
 public:
  static Result<std::unique_ptr<PngReader>> create(const PngOptions& options);
  virtual ~PngReader() = default;

  // Reads the header. `bytes` must stay until the image is read or the next one is opened.
  virtual Result<image::Size> open(ByteView bytes) = 0;

  // Decodes the rows of `window`, once after each open(); they begin at the image's left edge.
  // REQUIRES: the window lies in the image and is not empty.
  virtual Status read(const image::Rect& window, image::RowSink& sink) = 0;
};

Result<std::vector<std::byte>> write_png(const image::ImageView& image);

}  // namespace millrace::format
