// jpeg_scan: the restart intervals of a JPEG, and which of their bits may be changed.
//
// An interval is decoded without the bytes before it, so intervals of one image can be put into
// others, in any order. After the Huffman code of a coefficient come its sign and its lower bits as
// they are: with other values there, the interval has the same length and decodes to other pixels.
//
// Only sequential images with Huffman codes, as encoders write them by default. Knows the layout of
// any such image, but is meant for those that our own encoder made.
#pragma once

#include <cstdint>
#include <vector>

#include "base/base.h"
#include "base/result.h"
#include "image/image.h"

namespace millrace::bench {

struct JpegInterval {
  // Where an MCU (minimum coded unit: the blocks that the components have in common) ends.
  struct End {
    uint32_t size_bytes = 0;  // of the interval up to here, with the last byte
    uint32_t last_bits = 8;   // how many bits of that byte are used
  };

  static constexpr size_t kUnitBytes = 16;

  uint32_t size_bytes = 0;
  std::vector<std::byte> bytes;  // as in the file; zeros follow up to a multiple of kUnitBytes
  // As long as `bytes`: ones for the bits that may have any value. They leave DC coefficients as
  // they are, whose errors would add up, and never make a byte FF, which begins a marker.
  std::vector<std::byte> free_bits;
  std::vector<End> ends;  // of each MCU
};

struct JpegScan {
  size_t head_bytes = 0;     // what comes before the first interval
  size_t size_at = 0;        // where in it the height is: two bytes, then two of the width
  image::Size mcu;           // in pixels
  size_t interval_mcus = 0;  // of each interval but the last
  std::vector<JpegInterval> intervals;
};

Result<JpegScan> parse_jpeg_scan(ByteView jpeg);

}  // namespace millrace::bench
