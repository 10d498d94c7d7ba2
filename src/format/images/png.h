// PNG: decodes and encodes images with libpng.
//
// All kinds become RGB: gray and palettes are expanded, 16-bit values lose their lower eight bits,
// alpha is dropped and not blended, as in Pillow's convert("RGB"). Colour profiles, gamma and text
// are skipped and take no memory. The header is checked before anything else is read.
// Rows below the requested part are not decoded, except in interlaced files. Damaged or truncated
// data is an error. This is an optional part: png_off.cc reports if it is missing.
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
  uint64_t max_pixels = uint64_t{1} << 27;  // checked before allocating
  // One value per pixel, as stored: the index into the palette or the level of gray, without
  // scaling. Images with colours are refused. For masks, whose values are classes.
  bool values = false;
};

// One thread at a time.
class PngReader {
 public:
  static Result<std::unique_ptr<PngReader>> create(const PngOptions& options);
  virtual ~PngReader() = default;

  // Reads the header. REQUIRES: `bytes` stay valid until the image is read or the next is opened.
  virtual Result<image::Size> open(ByteView bytes) = 0;

  // Decodes the rows of `window`, once after each open(); they begin at the image's left edge.
  // REQUIRES: the window lies in the image and is not empty.
  virtual Status read(const image::Rect& window, image::RowSink& sink) = 0;

  // After open(): the bytes of a pixel in the rows: 3, or 1 or 2 for values (2: as in memory).
  virtual size_t pixel_bytes() const = 0;
};

struct PngWriteOptions {
  bool is_gray = false;  // the image has one byte per pixel
};

Result<std::vector<std::byte>> write_png(const image::ImageView& image,
                                         const PngWriteOptions& options = {});

}  // namespace millrace::format
