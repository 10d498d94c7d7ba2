// Resampler: turns the rows of a window of an image into a resized, mirrored, normalised sample.
//
// Rows come in one after the other; only as many are kept as the filter is high. Columns are
// blended first and rows after: blending columns is the cheap half, and where an image shrinks,
// which is the usual case, the dear half then has the fewest rows to do. Each element of the batch
// is written once. Memory is kept from image to image. One thread at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "image/crop.h"
#include "image/image.h"
#include "image/pixel_store.h"
#include "image/row_kernels.h"
#include "image/row_sink.h"
#include "image/taps.h"

namespace millrace::image {

class Resampler final : public RowSink {
 public:
  // Gets ready for one image: `crop` of it becomes `target`. Returns the window that is needed.
  Rect plan(const Crop& crop, Size target, bool antialias);

  // Where the sample goes: store.size_bytes(target) bytes. Both must outlive the rows.
  void direct(const PixelStore& store, std::byte* out);

  void begin(const RowRun& run) override;
  uint8_t* room() override;
  void row_done() override;

  // Whether all rows of the target are written.
  bool complete() const { return next_output_ == target_.height; }

 private:
  void emit(uint32_t output);
  const uint8_t* row_at(uint32_t row) const;

  const RowKernels& kernels_ = row_kernels();
  Taps columns_;  // along x
  Taps rows_;     // along y
  Size target_;
  const PixelStore* store_ = nullptr;
  std::byte* out_ = nullptr;

  RowRun run_;
  size_t row_stride_bytes_ = 0;
  uint32_t kept_rows_ = 0;
  uint32_t rows_in_ = 0;
  uint32_t next_output_ = 0;
  std::vector<uint8_t> ring_;            // kept_rows_ rows, the newest over the oldest
  std::vector<const uint8_t*> sources_;  // of the output row at hand
  std::vector<uint8_t> blended_;
  std::vector<uint8_t> wide_;
};

}  // namespace millrace::image
