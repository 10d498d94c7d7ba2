#include "image/resampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/numbers/random.h"

namespace millrace::image {
namespace {

Pixels noise(Size size) {
  Random random(size.width * 7919 + size.height);
  Pixels pixels(size);
  for (uint8_t& byte : pixels.bytes) byte = static_cast<uint8_t>(random.next());
  return pixels;
}

// Pushes the window like a decoder whose rows begin `lead` pixels before it.
std::vector<uint8_t> resampled(Resampler& resampler, const Pixels& image, const Crop& crop,
                               Size target, uint32_t lead = 0) {
  const PixelStore store({.layout = Layout::kNhwc});
  std::vector<uint8_t> out(store.size_bytes(target));
  const Rect window = resampler.plan(crop, target, /*antialias=*/true);
  resampler.direct(store, reinterpret_cast<std::byte*>(out.data()));
  resampler.begin({lead, lead + window.width, window.height});
  for (uint32_t y = 0; y < window.height; ++y) {
    uint8_t* room = resampler.room();
    std::memset(room, 0xee, size_t{lead} * 3);
    std::memcpy(room + size_t{lead} * 3, image.view().row(window.y + y) + size_t{window.x} * 3,
                size_t{window.width} * 3);
    resampler.row_done();
  }
  EXPECT_TRUE(resampler.complete());
  return out;
}

TEST(Resampler, TheSameSizeGivesTheSamePixels) {
  Resampler resampler;
  const Pixels image = noise({17, 9});
  EXPECT_EQ(resampled(resampler, image, whole_image(image.size), image.size), image.bytes);
}

TEST(Resampler, AFlipMirrorsEachRow) {
  Resampler resampler;
  const Pixels image = noise({40, 30});
  Crop crop = whole_image(image.size);
  const auto plain = resampled(resampler, image, crop, {16, 8});
  crop.flip = true;
  const auto mirrored = resampled(resampler, image, crop, {16, 8});
  for (size_t y = 0; y < 8; ++y) {
    for (size_t x = 0; x < 16; ++x) {
      for (size_t c = 0; c < 3; ++c) {
        ASSERT_EQ(mirrored[(y * 16 + x) * 3 + c], plain[(y * 16 + 15 - x) * 3 + c]);
      }
    }
  }
}

TEST(Resampler, RowsMayBeginBeforeTheWindow) {
  Resampler resampler;
  const Pixels image = noise({60, 50});
  const Crop crop{.box = {20, 10, 30, 25}, .bounds = {20, 10, 30, 25}};
  const auto plain = resampled(resampler, image, crop, {8, 8});
  EXPECT_EQ(resampled(resampler, image, crop, {8, 8}, /*lead=*/13), plain);
}

TEST(Resampler, PixelsOutsideTheCropHaveNoEffect) {
  Resampler resampler;
  Pixels image = noise({60, 50});
  const Crop crop{.box = {20, 10, 30, 25}, .bounds = {20, 10, 30, 25}};
  const auto plain = resampled(resampler, image, crop, {64, 64});
  for (uint32_t y = 0; y < 50; ++y) {
    for (uint32_t x = 0; x < 60; ++x) {
      if (x >= 20 && x < 50 && y >= 10 && y < 35) continue;
      std::memset(&image.bytes[(size_t{y} * 60 + x) * 3], 0, 3);
    }
  }
  EXPECT_EQ(resampled(resampler, image, crop, {64, 64}), plain);
}

// A simple resize in floating point, over both axes at once.
double reference(const Pixels& image, const Rect& part, Size target, uint32_t x, uint32_t y,
                 uint32_t c) {
  const double x_step = static_cast<double>(part.width) / target.width;
  const double y_step = static_cast<double>(part.height) / target.height;
  double sum = 0, weights = 0;
  for (uint32_t j = 0; j < part.height; ++j) {
    for (uint32_t i = 0; i < part.width; ++i) {
      const double dx = std::abs(i + 0.5 - (x + 0.5) * x_step) / std::max(x_step, 1.0);
      const double dy = std::abs(j + 0.5 - (y + 0.5) * y_step) / std::max(y_step, 1.0);
      const double weight = std::max(0.0, 1 - dx) * std::max(0.0, 1 - dy);
      sum += weight * image.view().row(part.y + j)[(part.x + i) * 3 + c];
      weights += weight;
    }
  }
  return sum / weights;
}

TEST(Resampler, DiffersByAtMostOneFromAFloatingPointResize) {
  Resampler resampler;
  const Pixels image = noise({61, 47});
  const Rect parts[] = {{0, 0, 61, 47}, {5, 6, 50, 30}, {60, 46, 1, 1}, {10, 3, 4, 40}};
  const Size targets[] = {{7, 5}, {33, 29}, {80, 90}, {1, 1}};
  for (const Rect& part : parts) {
    for (const Size target : targets) {
      const Crop crop{.box = {static_cast<double>(part.x), static_cast<double>(part.y),
                              static_cast<double>(part.width), static_cast<double>(part.height)},
                      .bounds = part};
      const auto out = resampled(resampler, image, crop, target);
      for (uint32_t i = 0; i < target.width * target.height; i += 3) {
        const uint32_t x = i % target.width, y = i / target.width, c = i % 3;
        ASSERT_NEAR(out[i * 3 + c], reference(image, part, target, x, y, c), 1.1)
            << part.width << "x" << part.height << " to " << target.width << "x" << target.height;
      }
    }
  }
}

}  // namespace
}  // namespace millrace::image
