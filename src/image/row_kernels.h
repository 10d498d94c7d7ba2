// Row kernels: the inner loops of a resize, over rows of interleaved bytes.
//
// Plain loops that compilers vectorise (SSE2, NEON), and the same in AVX2 where the machine has it,
// chosen when the program runs. Both give equal bytes; row_kernels_test.cc holds them together.
//
// Rows are read and written in whole vectors: memory for a row needs kRowPaddingBytes after its
// last byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "image/taps.h"

namespace millrace::image {

constexpr size_t kRowPaddingBytes = 64;

// A pixel of a resized row: red, green, blue and a byte of no meaning, so that it is one word.
constexpr size_t kWidePixelBytes = 4;

struct RowKernels {
  // out[x] = sum of weights[k] * rows[k][x], for x below size_bytes. An even number of rows.
  void (*blend_rows)(std::span<const uint8_t* const> rows, const int16_t* weights,
                     uint32_t precision_bits, size_t size_bytes, uint8_t* out);
  // Each output of `taps` from the three-byte pixels of `row` (the window of the taps), as a wide
  // pixel. `out` has room for a multiple of four of them.
  void (*resample_row)(const uint8_t* row, const Taps& taps, uint8_t* out);
  // Pixels of three bytes to a row of each channel, which need no padding.
  void (*split_row)(const uint8_t* row, size_t pixel_count, uint8_t* red, uint8_t* green,
                    uint8_t* blue);
};

RowKernels plain_row_kernels();
// Those of this machine.
const RowKernels& row_kernels();

}  // namespace millrace::image
