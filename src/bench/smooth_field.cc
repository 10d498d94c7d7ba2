#include "bench/smooth_field.h"

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

uint64_t corner_key(uint64_t key, uint64_t x, uint64_t y) {
  return hashed(key + x * 0x9e3779b97f4a7c15 + y * 0xc2b2ae3d27d4eb4f);
}

// From -amplitude to amplitude, in 1/256.
int64_t corner(uint64_t key, uint64_t x, uint64_t y, int32_t amplitude) {
  const auto unit = static_cast<int64_t>(corner_key(key, x, y) >> 48) - 32768;
  return unit * amplitude / 128;
}

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
  const uint64_t channels = shape_.channels;
  const uint64_t cell_y = part.row >> octave.cell_log2;
  const auto below = static_cast<int64_t>(part.row & (side - 1));
  const auto edge = [&](uint64_t key, uint64_t x) {  // between two corners, at this row
    const int64_t above = corner(key, x, cell_y, octave.amplitude);
    const int64_t under = corner(key, x, cell_y + 1, octave.amplitude);
    return above * static_cast<int64_t>(side) + (under - above) * below;
  };
  for (uint64_t channel = 0; channel < channels; ++channel) {
    // Detail has the same brightness in all colours, as in most photographs; only areas differ.
    const bool is_shared = octave.cell_log2 < kColourCellLog2;
    const uint64_t key = octave_key + (is_shared ? 0 : channel * 0xd6e8feb86659fd93);
    // The first element of this channel in `out`.
    size_t at = static_cast<size_t>((channel + channels - part.element % channels) % channels);
    uint64_t x = (part.element + at) / channels;
    while (at < out.size()) {
      const uint64_t cell_x = x >> octave.cell_log2;
      const int64_t left = edge(key, cell_x);
      const int64_t step = edge(key, cell_x + 1) - left;
      const uint64_t cell_end = (cell_x + 1) << octave.cell_log2;
      int64_t level =
          left * static_cast<int64_t>(side) + step * static_cast<int64_t>(x & (side - 1));
      const uint32_t shift = 2 * octave.cell_log2 + 8;
      for (; x < cell_end && at < out.size(); ++x, at += channels) {
        out[at] += static_cast<int32_t>(level >> shift);
        level += step;
      }
    }
  }
}

void SmoothField::finish(uint64_t first, std::span<int32_t> out) const {
  const uint64_t noise_key = hashed(key_ ^ 0x6e6f697365);
  const auto width = static_cast<uint64_t>(2 * octaves_.noise + 1);
  for (size_t i = 0; i < out.size(); ++i) {
    const uint64_t random = hashed(noise_key + first + i) >> 32;
    const auto noise = static_cast<int32_t>(random * width >> 32) - octaves_.noise;
    out[i] = std::clamp(out[i] + octaves_.middle + noise, octaves_.level_min, octaves_.level_max);
  }
}

}  // namespace millrace::bench
