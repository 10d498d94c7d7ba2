// JpegStrips: JPEG files put together from strips that were encoded once.
//
// An encoder takes ten times as long as writing its file. Here it encodes one image of 32 strips
// for the whole dataset. A file takes strips in a random order and changes their free bits at
// random (jpeg_scan.h), so that no two files have many bytes in common, and each is as long as if
// its pixels had been encoded: a strip keeps its coefficients' sizes. Each strip is a restart
// interval, which adds three bytes or so to it.
//
// Immutable and thread-safe.
#pragma once

#include "base/base.h"
#include "base/result.h"
#include "bench/generate/content.h"
#include "bench/generate/images/jpeg_scan.h"
#include "image/image.h"

namespace millrace::bench {

class JpegStrips {
 public:
  static constexpr uint32_t kSideMax = 65'500;  // of an image, as in libjpeg

  // Encodes the strips: pixels of `content`, gray or in colours (4:2:0).
  static Result<JpegStrips> encode(const Content& content, bool is_gray, int quality);

  // The room that write() needs.
  size_t room_bytes(image::Size size) const;

  // Writes an image to the front of `out` and returns its length. Equal keys give equal images.
  // REQUIRES: sides of 1 to kSideMax, and out.size() >= room_bytes(size).
  size_t write(uint64_t key, image::Size size, MutableByteView out) const;

 private:
  size_t mcu_count(image::Size size) const;

  std::vector<std::byte> head_;
  JpegScan scan_;
  size_t strip_bytes_max_ = 0;
  std::vector<uint64_t> noise_;
};

}  // namespace millrace::bench
