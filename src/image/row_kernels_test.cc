#include "image/row_kernels.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/numbers/random.h"

namespace millrace::image {
namespace {

std::vector<uint8_t> noise(size_t size, uint64_t seed) {
  Random random(seed);
  std::vector<uint8_t> bytes(size + kRowPaddingBytes);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random.next());
  return bytes;
}

Taps taps_of(uint32_t pixels, uint32_t outputs) {
  Taps taps;
  taps.make({.size = static_cast<double>(pixels), .bounds_end = pixels, .output_count = outputs});
  return taps;
}

TEST(RowKernels, BlendRowsGivesTheSameBytesAsThePlainKernel) {
  for (const uint32_t height : {2u, 3u, 9u, 40u}) {
    const Taps taps = taps_of(height, 2);
    for (const size_t size : {1u, 31u, 32u, 33u, 200u, 1000u}) {
      std::vector<std::vector<uint8_t>> rows;
      std::vector<const uint8_t*> sources;
      for (uint32_t k = 0; k < (taps.count(0) + 1) / 2 * 2; ++k) {
        rows.push_back(noise(size, k + size));
        sources.push_back(rows.back().data());
      }
      std::vector<uint8_t> plain(size + kRowPaddingBytes);
      std::vector<uint8_t> own(size + kRowPaddingBytes);
      plain_row_kernels().blend_rows(sources, taps.weights(0), taps.precision_bits(), size,
                                     plain.data());
      row_kernels().blend_rows(sources, taps.weights(0), taps.precision_bits(), size, own.data());
      plain.resize(size);
      own.resize(size);
      EXPECT_EQ(plain, own) << height << " rows of " << size;
    }
  }
}

TEST(RowKernels, ResampleRowGivesTheSameBytesAsThePlainKernel) {
  for (const uint32_t pixels : {1u, 2u, 5u, 100u, 224u, 300u, 1000u}) {
    for (const uint32_t outputs : {1u, 3u, 4u, 7u, 224u}) {
      const Taps taps = taps_of(pixels, outputs);
      const auto row = noise((pixels + taps.stride()) * 3, pixels);
      std::vector<uint8_t> plain((outputs + 3) / 4 * 4 * kWidePixelBytes);
      std::vector<uint8_t> own(plain.size());
      plain_row_kernels().resample_row(row.data(), taps, plain.data());
      row_kernels().resample_row(row.data(), taps, own.data());
      for (size_t i = 0; i < outputs * kWidePixelBytes; ++i) {
        if (i % kWidePixelBytes == 3) continue;  // the unused byte
        ASSERT_EQ(plain[i], own[i]) << pixels << " to " << outputs << ", byte " << i;
      }
    }
  }
}

TEST(RowKernels, SplitRowGivesTheSameBytesAsThePlainKernel) {
  for (const size_t pixels : {1u, 15u, 16u, 17u, 100u}) {
    const auto row = noise(pixels * 3, pixels);
    // One byte more than the row has. It must not change.
    std::vector<std::vector<uint8_t>> plain(3, std::vector<uint8_t>(pixels + 1, 7));
    auto own = plain;
    plain_row_kernels().split_row(row.data(), pixels, plain[0].data(), plain[1].data(),
                                  plain[2].data());
    row_kernels().split_row(row.data(), pixels, own[0].data(), own[1].data(), own[2].data());
    EXPECT_EQ(plain, own);
    EXPECT_EQ(own[2][pixels - 1], row[pixels * 3 - 1]);
    EXPECT_EQ(own[2][pixels], 7);
  }
}

TEST(RowKernels, AUniformRowStaysUniformAtEveryBrightness) {
  const Taps taps = taps_of(300, 224);
  std::vector<uint8_t> out(224 * kWidePixelBytes);
  for (int level = 0; level < 256; ++level) {
    const std::vector<uint8_t> row(300 * 3 + 200, static_cast<uint8_t>(level));
    row_kernels().resample_row(row.data(), taps, out.data());
    for (size_t i = 0; i < out.size(); i += 1 + (i % 4 == 2)) ASSERT_EQ(out[i], level);
  }
}

}  // namespace
}  // namespace millrace::image
