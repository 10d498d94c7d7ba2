#include "image/crop.h"

#include <gtest/gtest.h>

namespace millrace::image {
namespace {

TEST(Crop, RandomCropsAreInsideTheImageAndWithinAreaAndRatio) {
  const RandomCropOptions options;
  for (uint64_t i = 0; i < 2000; ++i) {
    CounterRandom random(1, i);
    const Crop crop = random_resized_crop({500, 375}, options, random);
    const Rect& part = crop.bounds;
    ASSERT_LE(part.x + part.width, 500u);
    ASSERT_LE(part.y + part.height, 375u);
    const double area = part.width * part.height / (500.0 * 375.0);
    ASSERT_GT(area, 0.079);
    ASSERT_LE(area, 1.0);
    const double ratio = static_cast<double>(part.width) / part.height;
    ASSERT_GT(ratio, 0.74);
    ASSERT_LT(ratio, 1.35);
    ASSERT_EQ(crop.box.x, part.x);
    ASSERT_EQ(crop.box.height, part.height);
  }
}

TEST(Crop, EqualKeysGiveEqualCropsAndOthersDoNot) {
  CounterRandom first(7, 42), again(7, 42), other(7, 43);
  const Rect part = random_resized_crop({500, 375}, {}, first).bounds;
  EXPECT_EQ(random_resized_crop({500, 375}, {}, again).bounds, part);
  EXPECT_NE(random_resized_crop({500, 375}, {}, other).bounds, part);
}

// These numbers must never change: a run resumed by another build gets the same pixels.
TEST(Crop, TheCropOfAKeyNeverChanges) {
  CounterRandom random(2026, 11);
  EXPECT_EQ(random_resized_crop({500, 375}, {}, random).bounds, (Rect{66, 63, 256, 296}));
}

TEST(Crop, TakesTheMiddleAtTheNearestRatioIfNothingFits) {
  CounterRandom random(1, 1);
  EXPECT_EQ(random_resized_crop({1000, 10}, {.area_min = 1}, random).bounds,
            (Rect{493, 0, 13, 10}));
  EXPECT_EQ(random_resized_crop({10, 1000}, {.area_min = 1}, random).bounds,
            (Rect{0, 493, 10, 13}));
}

TEST(Crop, TheCropOfOnePixelIsThatPixel) {
  CounterRandom random(1, 1);
  EXPECT_EQ(random_resized_crop({1, 1}, {}, random).bounds, (Rect{0, 0, 1, 1}));
}

TEST(Crop, TheCentreCropIsThatOfTheResizedImage) {
  // 500 x 375 resized to 341 x 256, then 224 of it from (58, 16).
  const Crop crop = centre_crop({500, 375}, 256, {224, 224});
  EXPECT_DOUBLE_EQ(crop.box.x, 58 * 500.0 / 341);
  EXPECT_DOUBLE_EQ(crop.box.y, 16 * 375.0 / 256);
  EXPECT_DOUBLE_EQ(crop.box.width, 224 * 500.0 / 341);
  EXPECT_EQ(crop.bounds, (Rect{0, 0, 500, 375}));  // a filter may read beyond the box
}

TEST(Crop, TheCentreCropOfALongThinImageIsInItsMiddle) {
  const Crop crop = centre_crop({1, 1000000}, 32768, {32768, 32768});
  EXPECT_EQ(crop.box.x, 0);
  EXPECT_NEAR(crop.box.y, 499999.5, 1e-3);
  EXPECT_NEAR(crop.box.height, 1, 1e-9);
}

TEST(Crop, AtHalfTheSizeTheBoundsStillContainTheBox) {
  const Crop whole{.box = {3, 5, 7, 9}, .bounds = {3, 5, 7, 9}, .flip = true};
  const Crop half = scaled_crop(whole, 4, {50, 50});
  EXPECT_EQ(half.box.x, 1.5);
  EXPECT_EQ(half.box.height, 4.5);
  EXPECT_EQ(half.bounds, (Rect{1, 2, 4, 5}));
  EXPECT_TRUE(half.flip);
}

}  // namespace
}  // namespace millrace::image
