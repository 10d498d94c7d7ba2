#include "bench/generate/images/smooth_field.h"

#include <algorithm>

namespace millrace::bench {
namespace {

// Chosen so that a JPEG of quality 75 takes 1.2 bits per pixel and a PNG 4.6 bits per byte, as the
// photographs of Kodak's test set do.
constexpr Octave kPhoto[] = {{8, 96}, {6, 40}, {4, 20}, {2, 16}, {1, 12}};
constexpr Octave kPhysics[] = {{9, 3 << 20}, {6, 1 << 18}, {3, 1 << 14}};

constexpr uint32_t kColourCellLog2 = 5;

// splitmix64's finalizer.
uint64_t hashed(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

// The edge between two rows of corners, at one row of pixels between them. A random number gives
// four corners, and neighbours are asked for one after another.
class Edge {
 public:
  Edge(uint64_t key, const Octave& octave, uint64_t row)
      : key_(key + (row >> octave.cell_log2) * kRowStep),
        amplitude_(octave.amplitude),
        cell_log2_(octave.cell_log2),
        below_(static_cast<int64_t>(row & ((uint64_t{1} << octave.cell_log2) - 1))) {}

  // In 1/256, times the side of a cell.
  int64_t at(uint64_t x) {
    if (x / 4 != quad_) {
      quad_ = x / 4;
      above_ = hashed(key_ + quad_ * kQuadStep);
      under_ = hashed(key_ + kRowStep + quad_ * kQuadStep);
    }
    const int64_t above = corner(above_, x);
    const int64_t under = corner(under_, x);
    return (above << cell_log2_) + (under - above) * below_;
  }

 private:
  static constexpr uint64_t kRowStep = 0xc2b2ae3d27d4eb4f;
  static constexpr uint64_t kQuadStep = 0x9e3779b97f4a7c15;

  // From -amplitude to amplitude, in 1/256.
  int64_t corner(uint64_t quad, uint64_t x) const {
    const auto unit = static_cast<int16_t>(quad >> (x % 4 * 16));
    return (int64_t{unit} * amplitude_) >> 7;
  }

  uint64_t key_;
  int64_t amplitude_;
  uint32_t cell_log2_;
  int64_t below_;
  uint64_t quad_ = ~uint64_t{0};
  uint64_t above_ = 0;
  uint64_t under_ = 0;
};

}  // namespace

Octaves photo_octaves() {
  return {.list = kPhoto, .middle = 128, .noise = 4, .level_min = 0, .level_max = 255};
}

Octaves physics_octaves() {
  return {.list = kPhysics,
          .middle = 1 << 23,
          .noise = 1 << 9,
          .level_min = 1,
          .level_max = (1 << 24) - 1};
}

struct SmoothField::Part {
  uint64_t row = 0;
  uint64_t element = 0;  // in the row
};

void SmoothField::levels(uint64_t first, std::span<int32_t> out) const {
  const uint64_t row_elements = shape_.width * shape_.channels;
  std::fill(out.begin(), out.end(), 0);
  for (size_t at = 0; at < out.size();) {
    const Part part{.row = (first + at) / row_elements, .element = (first + at) % row_elements};
    const auto count =
        static_cast<size_t>(std::min<uint64_t>(out.size() - at, row_elements - part.element));
    uint64_t octave_key = key_;
    for (const Octave& octave : octaves_.list) {
      octave_key = hashed(octave_key + 1);
      add_octave(octave_key, octave, part, out.subspan(at, count));
    }
    at += count;
  }
  finish(first, out);
}

// Goes from cell to cell; within one, the level is linear in x.
void SmoothField::add_octave(uint64_t octave_key, const Octave& octave, const Part& part,
                             std::span<int32_t> out) const {
  const uint64_t side = uint64_t{1} << octave.cell_log2;
  const uint32_t shift = 2 * octave.cell_log2 + 8;
  const uint64_t channels = shape_.channels;
  for (uint64_t channel = 0; channel < channels; ++channel) {
    // Detail has the same brightness in all colours, as in most photographs; only areas differ.
    const bool is_shared = octave.cell_log2 < kColourCellLog2;
    Edge edge(octave_key + (is_shared ? 0 : channel * 0xd6e8feb86659fd93), octave, part.row);
    // The first element of this channel in `out`.
    size_t at = static_cast<size_t>((channel + channels - part.element % channels) % channels);
    uint64_t x = (part.element + at) / channels;
    int64_t left = edge.at(x >> octave.cell_log2);
    while (at < out.size()) {
      const uint64_t next_cell = (x >> octave.cell_log2) + 1;
      const int64_t right = edge.at(next_cell);
      const int64_t step = right - left;
      const uint64_t cell_end = next_cell << octave.cell_log2;
      int64_t level = (left << octave.cell_log2) + step * static_cast<int64_t>(x & (side - 1));
      for (; x < cell_end && at < out.size(); ++x, at += channels) {
        out[at] += static_cast<int32_t>(level >> shift);
        level += step;
      }
      left = right;
    }
  }
}

// Four elements share a random number.
void SmoothField::finish(uint64_t first, std::span<int32_t> out) const {
  const uint64_t noise_key = hashed(key_ ^ 0x6e6f697365);
  const auto width = static_cast<uint64_t>(2 * octaves_.noise + 1);
  uint64_t random = hashed(noise_key + first / 4);
  for (size_t i = 0; i < out.size(); ++i) {
    const uint64_t lane = (first + i) % 4;
    if (lane == 0) random = hashed(noise_key + (first + i) / 4);
    const uint64_t unit = random >> (lane * 16) & 0xffff;
    const auto noise = static_cast<int32_t>(unit * width >> 16) - octaves_.noise;
    out[i] = std::clamp(out[i] + octaves_.middle + noise, octaves_.level_min, octaves_.level_max);
  }
}

}  // namespace millrace::bench
