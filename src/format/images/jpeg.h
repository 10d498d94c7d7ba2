// JPEG: decodes and encodes images with libjpeg-turbo, completely or only a part.
//
// Decoding a part is cheaper: blocks outside it are parsed, because a JPEG cannot be entered in the
// middle, but not transformed. Rows after it are not even parsed. A part has the same pixels as in
// the whole image. If the result is much smaller than the part, the image can be decoded at 1/2,
// 1/4 or 1/8 of its size. Gray and CMYK become RGB. The EXIF orientation is ignored, as in
// torchvision's decode_jpeg and Pillow's open().
//
// Damaged or truncated data is an error, not a half gray image. Data after the requested part is
// not checked. This is an optional part: jpeg_off.cc reports if it is missing.
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
inline bool is_jpeg(ByteView bytes) { return text_of(bytes).starts_with("\xFF\xD8\xFF"); }

struct JpegOptions {
  // The most that a header may claim, checked before allocating; 2^27 pixels are 400 MB of RGB.
  uint64_t max_pixels = uint64_t{1} << 27;
  // Decodes what is left of damaged data; missing rows are gray.
  bool accept_damage = false;
};

// Reuses libjpeg's handle for all images. One thread at a time.
class JpegReader {
 public:
  static Result<std::unique_ptr<JpegReader>> create(const JpegOptions& options);
  virtual ~JpegReader() = default;

  // Reads the header. REQUIRES: `bytes` stay valid until the image is read or the next is opened.
  virtual Result<image::Size> open(ByteView bytes) = 0;

  // The size of the image decoded at `eighths` / 8: 1, 2, 4 or 8.
  virtual image::Size size_at(uint32_t eighths) const = 0;

  // Decodes `window` of the image at `eighths` / 8 into `sink`, once after each open().
  // REQUIRES: the window lies in size_at(eighths) and is not empty.
  virtual Status read(const image::Rect& window, uint32_t eighths, image::RowSink& sink) = 0;
};

struct JpegWriteOptions {
  int quality = 90;          // 1 to 100
  bool halve_colour = true;  // 4:2:0, like most photographs; otherwise 4:4:4
  bool progressive = false;
  bool is_gray = false;  // the image has one byte per pixel
};

Result<std::vector<std::byte>> write_jpeg(const image::ImageView& image,
                                          const JpegWriteOptions& options);

}  // namespace millrace::format
