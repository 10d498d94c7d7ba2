// Row kernels: the inner loops of a resize, over rows of interleaved bytes.
//
// There are plain loops that compilers vectorise (SSE2, NEON), and AVX2 versions, chosen at run
// time. Both give equal bytes; row_kernels_test.cc checks that.
//
// Rows are read and written in whole vectors, so the memory of a row needs kRowPaddingBytes after
// its last byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "image/taps.h"

namespace millrace::image {

constexpr size_t kRowPaddingBytes = 64;

// A wide pixel of a resized row: red, green, blue and an unused byte, so that it is one word.
constexpr size_t kWidePixelBytes = 4;

struct RowKernels {
  // out[x] = sum of weights[k] * rows[k][x], for x < size_bytes. The number of rows is even.
  void (*blend_rows)(std::span<const uint8_t* const> rows, const int16_t* weights,
                     uint32_t precision_bits, size_t size_bytes, uint8_t* out);
  // Computes each output of `taps` from the three-byte pixels of `row` (the window of the taps), as
  // a wide pixel. `out` has room for a multiple of four wide pixels.
  void (*resample_row)(const uint8_t* row, const Taps& taps, uint8_t* out);
  // Splits three-byte pixels into one row per channel. These rows need no padding.
  void (*split_row)(const uint8_t* row, size_t pixel_count, uint8_t* red, uint8_t* green,
                    uint8_t* blue);
};

RowKernels plain_row_kernels();
// The fastest kernels for this machine.
const RowKernels& row_kernels();

}  // namespace millrace::image
