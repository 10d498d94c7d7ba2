#include "image/pixel_store.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace millrace::image {
namespace {

// Two rows of three wide pixels. The fourth byte of each is ignored.
constexpr uint8_t kRows[2][12] = {{1, 2, 3, 99, 4, 5, 6, 99, 7, 8, 9, 99},
                                  {11, 12, 13, 99, 14, 15, 16, 99, 17, 18, 19, 99}};
constexpr Size kSize{3, 2};

template <typename T>
std::vector<T> stored(const PixelFormat& format) {
  const PixelStore store(format);
  std::vector<T> out(store.size_bytes(kSize) / sizeof(T));
  for (uint32_t y = 0; y < 2; ++y) {
    store.store_wide(kRows[y], y, kSize, reinterpret_cast<std::byte*>(out.data()));
  }
  return out;
}

TEST(PixelStore, WritesChannelByChannel) {
  const std::vector<uint8_t> expected{1,  4,  7,  11, 14, 17, 2,  5,  8,
                                      12, 15, 18, 3,  6,  9,  13, 16, 19};
  EXPECT_EQ(stored<uint8_t>({.layout = Layout::kNchw}), expected);
}

TEST(PixelStore, WritesPixelByPixel) {
  const std::vector<uint8_t> expected{1,  2,  3,  4,  5,  6,  7,  8,  9,
                                      11, 12, 13, 14, 15, 16, 17, 18, 19};
  EXPECT_EQ(stored<uint8_t>({.layout = Layout::kNhwc}), expected);
}

TEST(PixelStore, NarrowAndWidePixelsGiveTheSameResult) {
  const uint8_t narrow[2][9] = {{1, 2, 3, 4, 5, 6, 7, 8, 9}, {11, 12, 13, 14, 15, 16, 17, 18, 19}};
  for (const PixelType type : {PixelType::kU8, PixelType::kF16, PixelType::kF32}) {
    for (const Layout layout : {Layout::kNchw, Layout::kNhwc}) {
      const PixelStore store({.type = type, .layout = layout});
      std::vector<uint8_t> out(store.size_bytes(kSize));
      for (uint32_t y = 0; y < 2; ++y) {
        store.store(narrow[y], y, kSize, reinterpret_cast<std::byte*>(out.data()));
      }
      EXPECT_EQ(out, stored<uint8_t>({.type = type, .layout = layout}));
    }
  }
}

TEST(PixelStore, NormalisesEachChannelWithItsOwnMeanAndDeviation) {
  const auto out = stored<float>({.type = PixelType::kF32,
                                  .layout = Layout::kNhwc,
                                  .mean = {0.5f, 0.25f, 0},
                                  .deviation = {2, 0.5f, 1}});
  EXPECT_EQ(out[0], (1 / 255.0f - 0.5f) / 2);
  EXPECT_EQ(out[1], (2 / 255.0f - 0.25f) / 0.5f);
  EXPECT_EQ(out[17], 19 / 255.0f);
}

TEST(PixelStore, StoresHalfFloatsInTheirType) {
  EXPECT_EQ(stored<uint16_t>({.type = PixelType::kF16})[0], f16_bits(1 / 255.0f));
  EXPECT_EQ(stored<uint16_t>({.type = PixelType::kBf16})[0], bf16_bits(1 / 255.0f));
}

TEST(PixelStore, RoundsToHalfLikeIeee754) {
  EXPECT_EQ(f16_bits(0.0f), 0x0000);
  EXPECT_EQ(f16_bits(-0.0f), 0x8000);
  EXPECT_EQ(f16_bits(1.0f), 0x3c00);
  EXPECT_EQ(f16_bits(-2.0f), 0xc000);
  EXPECT_EQ(f16_bits(1.0f / 3.0f), 0x3555);
  EXPECT_EQ(f16_bits(65504.0f), 0x7bff);
  EXPECT_EQ(f16_bits(65520.0f), 0x7c00);
  EXPECT_EQ(f16_bits(0x1p-24f), 0x0001);
  EXPECT_EQ(f16_bits(0x1p-25f), 0x0000);  // a tie, to even
  EXPECT_EQ(f16_bits(0x1.ff8p-15f), 0x03ff);
  EXPECT_EQ(f16_bits(0x1.ffep-15f), 0x0400);  // carries into the first normal number
  EXPECT_EQ(f16_bits(1.0f + 0x1p-11f), 0x3c00);
  EXPECT_EQ(f16_bits(1.0f + 0x1.8p-10f), 0x3c02);
  EXPECT_EQ(f16_bits(std::numeric_limits<float>::quiet_NaN()) & 0x7e00, 0x7e00);
}

TEST(PixelStore, RoundsToBfloatToTheNearestEven) {
  EXPECT_EQ(bf16_bits(1.0f), 0x3f80);
  EXPECT_EQ(bf16_bits(1.0f + 0x1p-8f), 0x3f80);
  EXPECT_EQ(bf16_bits(1.0f + 0x1.8p-7f), 0x3f82);
  EXPECT_EQ(bf16_bits(-1.0f / 3.0f), 0xbeab);
}

}  // namespace
}  // namespace millrace::image
