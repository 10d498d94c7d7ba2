// SmoothField: integer levels that vary smoothly over rows and columns, like brightness or
// pressure.
//
// A sum of waves: triangles of random direction. Long waves give areas and short ones detail. All
// in integers, so that every machine computes the same levels.
#pragma once

#include <cstdint>
#include <span>

namespace millrace::bench {

// Elements in rows: `width` pixels of `channels` elements each.
struct PlaneShape {
  uint64_t width = 1;
  uint64_t channels = 1;
};

struct Wave {
  uint32_t period = 1;    // along each axis, in pixels; up to twice as many
  int32_t amplitude = 0;  // the most that it adds or subtracts
};

struct Waves {
  std::span<const Wave> list;
  int32_t middle = 0;
  int32_t noise = 0;  // added to each element by itself: up to this
  int32_t level_min = 0;
  int32_t level_max = 0;
};

// Levels from 0 to 255.
Waves photo_waves();
// Levels from 1 to 2^24, which a float32 holds exactly.
Waves physics_waves();

class SmoothField {
 public:
  SmoothField(uint64_t key, PlaneShape shape, const Waves& waves)
      : key_(key), shape_(shape), waves_(waves) {}

  // The levels of elements `first`, `first` + 1, ... in row order.
  void levels(uint64_t first, std::span<int32_t> out) const;

 private:
  void fill_noise(uint64_t first, std::span<int32_t> out) const;
  // `out` begins with element `first` of the row.
  void add_waves(uint64_t row, uint64_t first, std::span<int32_t> out) const;

  uint64_t key_;
  PlaneShape shape_;
  Waves waves_;
};

}  // namespace millrace::bench
