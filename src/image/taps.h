// Taps: for each place of a resized row or column, which pixels it is made of and how much of each.
//
// The triangle filter (bilinear), as wide as the step between outputs where the image shrinks
// (antialias), as Pillow and torchvision's antialias=True have it. Weights are 16-bit whole numbers
// that add up to one exactly, so that a plain surface stays plain; their precision is the highest
// that fits. Made anew for each image in memory that is kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace millrace::image {

struct Axis {
  double begin = 0;  // of the box, in pixels
  double size = 0;
  uint32_t bounds_begin = 0;  // no pixel before this,
  uint32_t bounds_end = 0;    // nor from here on
  uint32_t output_count = 0;
  bool antialias = true;
  bool mirrored = false;  // the last output first
};

class Taps {
 public:
  // REQUIRES: the bounds hold a pixel, size > 0, output_count > 0.
  void make(const Axis& axis);

  uint32_t output_count() const { return static_cast<uint32_t>(begins_.size()); }
  // What all outputs together look at: [window_begin, window_end).
  uint32_t window_begin() const { return window_begin_; }
  uint32_t window_end() const { return window_end_; }

  // Of output i: the first pixel, counted from window_begin(), and how many it has.
  uint32_t begin(uint32_t i) const { return begins_[i]; }
  uint32_t count(uint32_t i) const { return counts_[i]; }
  const uint32_t* begins() const { return begins_.data(); }  // of all outputs
  // Whether output i is pixel i of the window, for all of them.
  bool is_identity() const { return is_identity_; }
  // stride() weights, a multiple of four; those from count() on are zero.
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
