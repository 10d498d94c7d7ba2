// Taps: which pixels each output of a resized row or column is made of, and their weights.
//
// The filter is a triangle (bilinear). With antialias, and if the image shrinks, it is as wide as
// the step between outputs, as in Pillow and torchvision's antialias=True. Weights are 16-bit
// integers that add up to exactly one, so that a uniform area stays uniform; their precision is the
// highest that fits. Computed anew for each image, in memory that is reused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace millrace::image {

struct Axis {
  double begin = 0;  // of the box, in pixels
  double size = 0;
  uint32_t bounds_begin = 0;  // first pixel that may be read
  uint32_t bounds_end = 0;    // end of the pixels that may be read
  uint32_t output_count = 0;
  bool antialias = true;
  bool mirrored = false;  // the outputs in reverse order
};

class Taps {
 public:
  // REQUIRES: the bounds contain a pixel, size > 0, output_count > 0.
  void make(const Axis& axis);

  uint32_t output_count() const { return static_cast<uint32_t>(begins_.size()); }
  // The pixels that all outputs together read: [window_begin, window_end).
  uint32_t window_begin() const { return window_begin_; }
  uint32_t window_end() const { return window_end_; }

  // First pixel of output i, relative to window_begin(), and its number of pixels.
  uint32_t begin(uint32_t i) const { return begins_[i]; }
  uint32_t count(uint32_t i) const { return counts_[i]; }
  const uint32_t* begins() const { return begins_.data(); }  // for all outputs
  // Whether every output i is pixel i of the window.
  bool is_identity() const { return is_identity_; }
  // Returns stride() weights, a multiple of four. Those from count() on are zero.
  const int16_t* weights(uint32_t i) const { return weights_.data() + size_t{i} * stride_; }
  uint32_t stride() const { return stride_; }
  uint32_t precision_bits() const { return precision_bits_; }  // one is 1 << precision_bits()

 private:
  void weigh(const Axis& axis, uint32_t output, double* room);
  void round_weights(uint32_t output, const double* exact);

  std::vector<uint32_t> begins_;
  std::vector<uint32_t> counts_;
  std::vector<double> exact_;
  std::vector<int16_t> weights_;
  uint32_t stride_ = 0;
  uint32_t precision_bits_ = 0;
  uint32_t window_begin_ = 0;
  uint32_t window_end_ = 0;
  bool is_identity_ = false;
};

}  // namespace millrace::image
