#include "image/resampler.h"

#include <algorithm>
#include <cassert>

namespace millrace::image {
namespace {

void grow(std::vector<uint8_t>& bytes, size_t size) {
  if (bytes.size() < size) bytes.resize(size);
}

}  // namespace

Rect Resampler::plan(const Crop& crop, Size target, bool antialias) {
  const Rect& bounds = crop.bounds;
  columns_.make({.begin = crop.box.x,
                 .size = crop.box.width,
                 .bounds_begin = bounds.x,
                 .bounds_end = bounds.x + bounds.width,
                 .output_count = target.width,
                 .antialias = antialias,
                 .mirrored = crop.flip});
  rows_.make({.begin = crop.box.y,
              .size = crop.box.height,
              .bounds_begin = bounds.y,
              .bounds_end = bounds.y + bounds.height,
              .output_count = target.height,
              .antialias = antialias});
  target_ = target;
  rows_in_ = 0;
  next_output_ = 0;
  return {columns_.window_begin(), rows_.window_begin(),
          columns_.window_end() - columns_.window_begin(),
          rows_.window_end() - rows_.window_begin()};
}

void Resampler::direct(const PixelStore& store, std::byte* out) {
  store_ = &store;
  out_ = out;
}

void Resampler::begin(const RowRun& run) {
  run_ = run;
  // Weights past count() are zero but still multiplied, so that many pixels must be readable.
  const size_t pixels = size_t{run.total_pixels} + columns_.stride();
  const size_t line = 64;
  row_stride_bytes_ = (pixels * kChannels + kRowPaddingBytes + line - 1) / line * line;
  kept_rows_ = rows_.stride();
  grow(ring_, row_stride_bytes_ * kept_rows_);
  grow(blended_, row_stride_bytes_ + kRowPaddingBytes);
  grow(wide_, (size_t{target_.width} + 4) * kWidePixelBytes);
  sources_.resize(rows_.stride());
}

uint8_t* Resampler::room() {
  return ring_.data() + size_t{rows_in_ % kept_rows_} * row_stride_bytes_;
}

const uint8_t* Resampler::row_at(uint32_t row) const {
  return ring_.data() + size_t{row % kept_rows_} * row_stride_bytes_ +
         size_t{run_.lead_pixels} * kChannels;
}

void Resampler::row_done() {
  ++rows_in_;
  while (next_output_ < target_.height &&
         rows_.begin(next_output_) + rows_.count(next_output_) <= rows_in_) {
    emit(next_output_++);
  }
}

void Resampler::emit(uint32_t output) {
  const uint32_t begin = rows_.begin(output);
  const uint32_t count = rows_.count(output);
  for (uint32_t k = 0; k < count; ++k) sources_[k] = row_at(begin + k);
  // Rows are blended in pairs. An odd last row is paired with itself, at weight zero.
  if (count % 2 == 1) sources_[count] = sources_[count - 1];
  const size_t width = columns_.window_end() - columns_.window_begin();
  const uint8_t* row = sources_[0];
  if (count > 1) {
    kernels_.blend_rows({sources_.data(), (count + 1) / 2 * 2}, rows_.weights(output),
                        rows_.precision_bits(), width * kChannels, blended_.data());
    row = blended_.data();
  }
  if (columns_.is_identity()) return store_->store(row, output, target_, out_);
  kernels_.resample_row(row, columns_, wide_.data());
  store_->store_wide(wide_.data(), output, target_, out_);
}

}  // namespace millrace::image
