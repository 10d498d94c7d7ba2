// SmoothField: integer levels that vary smoothly over rows and columns, like brightness or
// pressure.
//
// A sum of octaves. Each has random values at the corners of square cells and interpolates between
// them; large cells give areas and small ones detail. All in integers, so that every machine
// computes the same levels.
#pragma once

#include <cstdint>
#include <span>

namespace millrace::bench {

// Elements in rows: `width` pixels of `channels` elements each.
struct PlaneShape {
  uint64_t width = 1;
  uint64_t channels = 1;
};

struct Octave {
  uint32_t cell_log2 = 0;  // the side of a cell is 2^cell_log2 pixels
  int32_t amplitude = 0;   // the most that a corner adds or subtracts
};

struct Octaves {
  std::span<const Octave> list;
  int32_t middle = 0;
  int32_t noise = 0;  // added to each element by itself: up to this
  int32_t level_min = 0;
  int32_t level_max = 0;
};

// Levels from 0 to 255.
Octaves photo_octaves();
// Levels from 1 to 2^24, which a float32 holds exactly.
Octaves physics_octaves();

class SmoothField {
 public:
  SmoothField(uint64_t key, PlaneShape shape, const Octaves& octaves)
      : key_(key), shape_(shape), octaves_(octaves) {}

  // The levels of elements `first`, `first` + 1, ... in row order.
  void levels(uint64_t first, std::span<int32_t> out) const;

 private:
  struct Part;  // of one row
  void add_octave(uint64_t octave_key, const Octave& octave, const Part& part,
                  std::span<int32_t> out) const;
  void finish(uint64_t first, std::span<int32_t> out) const;

  uint64_t key_;
  PlaneShape shape_;
  Octaves octaves_;
};

}  // namespace millrace::bench
