// CollectedRows: a sink that collects the window as an image, for tests of decoders.
#pragma once

#include <cstring>
#include <vector>

#include "image/image.h"
#include "image/row_sink.h"

namespace millrace::format {

class CollectedRows final : public image::RowSink {
 public:
  explicit CollectedRows(image::Size window) : pixels_(window) {}

  void begin(const image::RowRun& run) override {
    run_ = run;
    row_.resize(size_t{run.total_pixels} * image::kChannels);
  }
  uint8_t* room() override { return row_.data(); }
  void row_done() override {
    const size_t row_bytes = size_t{pixels_.size.width} * image::kChannels;
    std::memcpy(&pixels_.bytes[rows_in_++ * row_bytes],
                &row_[size_t{run_.lead_pixels} * image::kChannels], row_bytes);
  }

  const image::Pixels& pixels() const { return pixels_; }
  size_t rows_in() const { return rows_in_; }

 private:
  image::Pixels pixels_;
  image::RowRun run_;
  std::vector<uint8_t> row_;
  size_t rows_in_ = 0;
};

}  // namespace millrace::format
