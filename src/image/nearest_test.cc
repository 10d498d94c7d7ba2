#include "image/nearest.h"

#include <gmock/gmock.h>

namespace millrace::image {
namespace {

using testing::ElementsAre;

std::vector<uint32_t> nearest(const Axis& axis) {
  std::vector<uint32_t> pixels;
  nearest_pixels(axis, pixels);
  return pixels;
}

TEST(Nearest, TakesThePixelUnderTheCentre) {
  EXPECT_THAT(nearest({.size = 6, .bounds_end = 6, .output_count = 3}), ElementsAre(1, 3, 5));
  EXPECT_THAT(nearest({.size = 3, .bounds_end = 3, .output_count = 6}),
              ElementsAre(0, 0, 1, 1, 2, 2));
  EXPECT_THAT(nearest({.size = 5, .bounds_end = 5, .output_count = 3}), ElementsAre(0, 2, 4));
}

TEST(Nearest, StaysInTheCropAndMirrors) {
  const Axis axis{.begin = 10,
                  .size = 4,
                  .bounds_begin = 10,
                  .bounds_end = 14,
                  .output_count = 4,
                  .mirrored = true};
  EXPECT_THAT(nearest(axis), ElementsAre(13, 12, 11, 10));
}

TEST(Nearest, CutsTheMiddleOutOfAResizedImage) {
  // 8 pixels resized to 4, of which the middle two remain.
  EXPECT_THAT(nearest({.begin = 2, .size = 4, .bounds_end = 8, .output_count = 2}),
              ElementsAre(3, 5));
}

TEST(Nearest, AVeryLongImageTakesNoTime) {
  const double length = uint32_t{1} << 27;
  const auto pixels = nearest({.begin = length / 2 - 0.5,
                               .size = 1e-6,
                               .bounds_end = uint32_t{1} << 27,
                               .output_count = 2});
  EXPECT_NEAR(pixels[0], length / 2 - 1, 1);
}

}  // namespace
}  // namespace millrace::image
