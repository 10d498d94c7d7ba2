#include "image/pixel_store.h"

#include <bit>
#include <cassert>
#include <cmath>

#include "image/row_kernels.h"

namespace millrace::image {
namespace {

template <size_t kPixelBytes, typename T, typename Convert>
void store_planes(const uint8_t* pixels, uint32_t y, Size size, T* out, Convert convert) {
  const size_t plane = size_t{size.width} * size.height;
  T* red = out + size_t{y} * size.width;
  T* green = red + plane;
  T* blue = green + plane;
  for (size_t x = 0; x < size.width; ++x) {
    red[x] = convert(0, pixels[x * kPixelBytes]);
    green[x] = convert(1, pixels[x * kPixelBytes + 1]);
    blue[x] = convert(2, pixels[x * kPixelBytes + 2]);
  }
}

template <size_t kPixelBytes, typename T, typename Convert>
void store_pixels(const uint8_t* pixels, uint32_t y, Size size, T* out, Convert convert) {
  T* row = out + size_t{y} * size.width * kChannels;
  for (size_t x = 0; x < size.width; ++x) {
    for (size_t c = 0; c < kChannels; ++c) {
      row[x * kChannels + c] = convert(c, pixels[x * kPixelBytes + c]);
    }
  }
}

template <size_t kPixelBytes, typename T, typename Convert>
void store_as(Layout layout, const uint8_t* pixels, uint32_t y, Size size, std::byte* out,
              Convert convert) {
  auto* elements = reinterpret_cast<T*>(out);
  if (layout == Layout::kNchw) return store_planes<kPixelBytes>(pixels, y, size, elements, convert);
  return store_pixels<kPixelBytes>(pixels, y, size, elements, convert);
}

}  // namespace

size_t pixel_type_bytes(PixelType type) {
  switch (type) {
    case PixelType::kU8:
      return 1;
    case PixelType::kF16:
    case PixelType::kBf16:
      return 2;
    case PixelType::kF32:
      return 4;
  }
  return 0;
}

uint16_t bf16_bits(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

uint16_t f16_bits(float value) {
  const auto sign = static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16 & 0x8000);
  const double size = std::abs(static_cast<double>(value));
  if (std::isnan(value)) return static_cast<uint16_t>(sign | 0x7e00);
  if (size >= 65520) return static_cast<uint16_t>(sign | 0x7c00);
  // Count in steps between adjacent halves of this size. Below 2^-14 the step is constant
  // (subnormal).
  const int exponent = size < 0x1p-14 ? -14 : std::ilogb(size);
  const double steps = std::nearbyint(std::ldexp(size, 10 - exponent));
  // If rounding reaches the next power of two, the addition carries into the exponent.
  const int biased = exponent + 14;
  return static_cast<uint16_t>(sign | (biased * 1024 + static_cast<int>(steps)));
}

PixelStore::PixelStore(const PixelFormat& format) : format_(format) {
  for (size_t c = 0; c < kChannels; ++c) {
    assert(format.deviation[c] != 0);
    for (size_t byte = 0; byte < 256; ++byte) {
      const float value =
          (static_cast<float>(byte) / 255.0f - format.mean[c]) / format.deviation[c];
      f32_[c][byte] = value;
      f16_[c][byte] = format.type == PixelType::kF16 ? f16_bits(value) : bf16_bits(value);
    }
  }
}

size_t PixelStore::size_bytes(Size size) const {
  return size_t{size.width} * size.height * kChannels * pixel_type_bytes(format_.type);
}

void PixelStore::store(const uint8_t* pixels, uint32_t y, Size size, std::byte* out) const {
  if (format_.type == PixelType::kU8 && format_.layout == Layout::kNchw) {
    const size_t plane = size_t{size.width} * size.height;
    auto* red = reinterpret_cast<uint8_t*>(out) + size_t{y} * size.width;
    return row_kernels().split_row(pixels, size.width, red, red + plane, red + 2 * plane);
  }
  store_row<kChannels>(pixels, y, size, out);
}

void PixelStore::store_wide(const uint8_t* wide_pixels, uint32_t y, Size size,
                            std::byte* out) const {
  store_row<kWidePixelBytes>(wide_pixels, y, size, out);
}

template <size_t kPixelBytes>
void PixelStore::store_row(const uint8_t* pixels, uint32_t y, Size size, std::byte* out) const {
  switch (format_.type) {
    case PixelType::kU8:
      return store_as<kPixelBytes, uint8_t>(format_.layout, pixels, y, size, out,
                                            [](size_t, uint8_t byte) { return byte; });
    case PixelType::kF16:
    case PixelType::kBf16:
      return store_as<kPixelBytes, uint16_t>(
          format_.layout, pixels, y, size, out,
          [this](size_t c, uint8_t byte) { return f16_[c][byte]; });
    case PixelType::kF32:
      return store_as<kPixelBytes, float>(format_.layout, pixels, y, size, out,
                                          [this](size_t c, uint8_t byte) { return f32_[c][byte]; });
  }
}

}  // namespace millrace::image
