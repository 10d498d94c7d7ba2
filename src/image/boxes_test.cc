#include "image/boxes.h"

#include <gmock/gmock.h>

namespace millrace::image {
namespace {

using testing::DoubleEq;
using testing::ElementsAre;

// The part [10, 50) x [20, 40) of an image of 100 x 80 becomes 80 x 40: twice as large.
Framing framing(bool flip = false) {
  return {.image = {100, 80},
          .crop = {.box = {10, 20, 40, 20}, .bounds = {10, 20, 40, 20}, .flip = flip},
          .target = {80, 40}};
}

auto is_box(double a, double b, double c, double d) {
  return testing::Optional(ElementsAre(DoubleEq(a), DoubleEq(b), DoubleEq(c), DoubleEq(d)));
}

TEST(Boxes, FollowTheCropAndTheResize) {
  EXPECT_THAT(framed_box({20, 25, 30, 35}, framing(), {}), is_box(20, 10, 40, 30));
}

TEST(Boxes, AreMirrored) {
  EXPECT_THAT(framed_box({20, 25, 30, 35}, framing(true), {}), is_box(40, 10, 60, 30));
}

TEST(Boxes, AreClipped) {
  EXPECT_THAT(framed_box({0, 0, 20, 30}, framing(), {}), is_box(0, 0, 20, 20));
}

TEST(Boxes, KeepTheirFormat) {
  EXPECT_THAT(framed_box({20, 25, 10, 10}, framing(), {.format = BoxFormat::kXywh}),
              is_box(20, 10, 20, 20));
  EXPECT_THAT(framed_box({25, 30, 10, 10}, framing(), {.format = BoxFormat::kCxcywh}),
              is_box(30, 20, 20, 20));
  EXPECT_THAT(framed_box({.2, .3125, .3, .4375}, framing(), {.is_normalized = true}),
              is_box(.25, .25, .5, .75));
}

TEST(Boxes, OutsideTheCropAreDroppedOrKeptWithoutArea) {
  EXPECT_EQ(framed_box({60, 60, 70, 70}, framing(), {}), std::nullopt);
  EXPECT_EQ(framed_box({0, 25, 10.4, 35}, framing(), {}), std::nullopt);  // 0.8 pixels remain
  EXPECT_THAT(framed_box({60, 60, 70, 70}, framing(), {.side_min = 0, .area_min = 0}),
              is_box(80, 40, 80, 40));
  EXPECT_EQ(framed_box({20, 25, 30, 35}, framing(), {.area_min = 401}), std::nullopt);
}

TEST(Boxes, TheWrongWayRoundHaveNoArea) {
  EXPECT_EQ(framed_box({30, 35, 20, 25}, framing(), {}), std::nullopt);
  EXPECT_THAT(framed_box({30, 35, 20, 25}, framing(), {.side_min = 0, .area_min = 0}),
              is_box(40, 30, 40, 30));
}

}  // namespace
}  // namespace millrace::image
