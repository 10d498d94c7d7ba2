// JPEG: decodes and encodes images by libjpeg-turbo, whole or only the part that is wanted.
//
// A part is cheaper than the whole: blocks outside it are parsed, since JPEG cannot be entered in
// the middle, but not transformed; rows after it are not even parsed. A part decoded alone has the
// same pixels as the whole image has there. Where much more is wanted than is used, the image can
// be decoded at 1/2, 1/4 or 1/8 of its size. Gray and CMYK become RGB. EXIF's orientation is
// ignored, as torchvision's decode_jpeg and Pillow's open() do.
//
// Damaged or truncated data is an error, not a half gray image. Data after the wanted part is not
// looked at. Optional part: jpeg_off.cc says so where it is missing.
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
  // What a header may claim before memory is spent on it; 2^27 pixels are 400 MB of RGB.
  uint64_t max_pixels = uint64_t{1} << 27;
  // Takes what can be had of damaged data: rows that are missing are gray.
  bool accept_damage = false;
};

// Keeps libjpeg's handle from image to image. One thread at a time.
class JpegReader {
 public:
  static Result<std::unique_ptr<JpegReader>> create(const JpegOptions& options);
  virtual ~JpegReader() = default;

  // Reads the header. `bytes` must stay until the image is read or the next one is opened.
  virtual Result<image::Size> open(ByteView bytes) = 0;

  // The size of the image decoded at `eighths` / 8: 1, 2, 4 or 8.
  virtual image::Size size_at(uint32_t eighths) const = 0;

  // Decodes `window` of the image at `eighths` / 8 into `sink`, once after each open().
  // REQUIRES: the window lies in size_at(eighths) and is not empty.
  virtual Status read(const image::Rect& window, uint32_t eighths, image::RowSink& sink) = 0;
};

struct JpegWriteOptions {
  int quality = 90;          // 1 to 100
  bool halve_colour = true;  // 4:2:0, as most photographs have it; false: 4:4:4
  bool progressive = false;
};

Result<std::vector<std::byte>> write_jpeg(const image::ImageView& image,
                                          const JpegWriteOptions& options);

}  // namespace millrace::format
