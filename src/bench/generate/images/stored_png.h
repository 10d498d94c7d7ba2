// stored_png: PNG files whose pixels are stored as they are, made at the speed of memory.
//
// For random pixels, which no compressor makes smaller, but each tries to. Their checksums are
// still computed: CRC-32 of each chunk and Adler-32 of all pixels.
#pragma once

#include "base/base.h"
#include "image/image.h"

namespace millrace::bench {

struct PngPixels {
  image::Size size;  // 1 to 2^31 - 1 pixels wide and high
  bool is_gray = true;
  ByteView bytes;  // rows without gaps
};

// The exact length of the file.
size_t stored_png_bytes(image::Size size, bool is_gray);

// REQUIRES: out.size() == stored_png_bytes().
void write_stored_png(const PngPixels& pixels, MutableByteView out);

// RFC 1950. With the checksum of preceding bytes as `before`, the checksum of both together.
uint32_t adler32(ByteView bytes, uint32_t before = 1);

}  // namespace millrace::bench
