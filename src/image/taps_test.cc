#include "image/taps.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace millrace::image {
namespace {

Axis shrink(double begin, double size, uint32_t pixels, uint32_t outputs) {
  return {.begin = begin,
          .size = size,
          .bounds_begin = 0,
          .bounds_end = pixels,
          .output_count = outputs};
}

double share(const Taps& taps, uint32_t output, uint32_t k) {
  return taps.weights(output)[k] / static_cast<double>(1 << taps.precision_bits());
}

TEST(Taps, WeightsOfEachOutputAddUpToExactlyOne) {
  Taps taps;
  for (const uint32_t pixels : {1u, 2u, 3u, 100u, 223u, 224u, 225u, 375u, 5000u}) {
    taps.make(shrink(0, pixels, pixels, 224));
    for (uint32_t i = 0; i < taps.output_count(); ++i) {
      const int16_t* weights = taps.weights(i);
      EXPECT_EQ(std::accumulate(weights, weights + taps.stride(), 0), 1 << taps.precision_bits());
    }
  }
}

TEST(Taps, EqualSizesCopyEachPixel) {
  Taps taps;
  taps.make(shrink(0, 7, 7, 7));
  for (uint32_t i = 0; i < 7; ++i) {
    EXPECT_EQ(taps.begin(i), i);
    EXPECT_EQ(share(taps, i, 0), 1.0);
  }
}

TEST(Taps, HalfTheSizeUsesATriangleOfFourPixels) {
  Taps taps;
  taps.make(shrink(0, 16, 16, 8));
  EXPECT_EQ(taps.window_begin() + taps.begin(3), 5u);
  EXPECT_EQ(taps.count(3), 4u);
  const double expected[] = {0.125, 0.375, 0.375, 0.125};
  for (uint32_t k = 0; k < 4; ++k) EXPECT_NEAR(share(taps, 3, k), expected[k], 1e-4);
}

TEST(Taps, WithoutAntialiasingOnlyNeighboursCount) {
  Taps taps;
  Axis axis = shrink(0, 80, 80, 8);
  axis.antialias = false;
  taps.make(axis);
  EXPECT_EQ(taps.window_begin() + taps.begin(2), 24u);
  EXPECT_EQ(share(taps, 2, 0), 0.5);
  EXPECT_EQ(share(taps, 2, 1), 0.5);
}

TEST(Taps, MirroringReversesTheOutputs) {
  Taps taps;
  Taps mirrored;
  Axis axis = shrink(3.5, 20, 40, 9);
  taps.make(axis);
  axis.mirrored = true;
  mirrored.make(axis);
  for (uint32_t i = 0; i < 9; ++i) {
    EXPECT_EQ(mirrored.begin(i), taps.begin(8 - i));
    for (uint32_t k = 0; k < taps.stride(); ++k) {
      EXPECT_EQ(mirrored.weights(i)[k], taps.weights(8 - i)[k]);
    }
  }
}

TEST(Taps, ReadsNothingOutsideTheBounds) {
  Taps taps;
  taps.make({.begin = 10, .size = 5, .bounds_begin = 10, .bounds_end = 15, .output_count = 50});
  EXPECT_EQ(taps.window_begin(), 10u);
  EXPECT_EQ(taps.window_end(), 15u);
  taps.make({.begin = 10, .size = 50, .bounds_begin = 0, .bounds_end = 100, .output_count = 10});
  EXPECT_EQ(taps.window_begin(), 8u);  // the triangle reaches half its width beyond the box
  EXPECT_EQ(taps.window_end(), 62u);
}

}  // namespace
}  // namespace millrace::image
