// Resampler: turns a window of an image into a resized, mirrored and normalised sample.
//
// Rows arrive one by one; only as many are kept as the filter is high. The vertical pass comes
// first. It is the cheaper one, and when an image shrinks, the usual case, it leaves fewer rows for
// the expensive horizontal pass. Each element of the batch is written once. Memory is reused for
// the next image. Not thread-safe.
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
  // Prepares for one image: `crop` of it becomes `target`. Returns the window that it needs.
  Rect plan(const Crop& crop, Size target, bool antialias);

  // Sets where the sample goes: store.size_bytes(target) bytes at `out`. Both must stay valid until
  // complete().
  void direct(const PixelStore& store, std::byte* out);

  void begin(const RowRun& run) override;
  uint8_t* room() override;
  void row_done() override;

  // Whether all rows of the target were written.
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
  std::vector<uint8_t> ring_;            // the last kept_rows_ rows
  std::vector<const uint8_t*> sources_;  // of the current output row
  std::vector<uint8_t> blended_;
  std::vector<uint8_t> wide_;
};

}  // namespace millrace::image
