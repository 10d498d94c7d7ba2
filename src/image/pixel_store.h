// PixelStore: writes the pixel rows of a resized image to its place in a batch, in the type and
// layout of the batch.
//
// A byte has 256 values, so normalising is a table lookup per channel. It is exact, the same on
// every machine (a fused multiply-add would differ), and as fast for 16-bit floats as for 32-bit
// ones.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/base.h"
#include "image/image.h"

namespace millrace::image {

enum class PixelType : uint8_t { kU8, kF16, kBf16, kF32 };
enum class Layout : uint8_t { kNchw, kNhwc };  // channel by channel, or pixel by pixel

size_t pixel_type_bytes(PixelType type);

struct PixelFormat {
  PixelType type = PixelType::kU8;
  Layout layout = Layout::kNchw;
  // For floats: (byte / 255 - mean) / deviation, by channel.
  std::array<float, kChannels> mean{0, 0, 0};
  std::array<float, kChannels> deviation{1, 1, 1};
};

// IEEE 754 half and bfloat16, rounded to nearest, ties to even.
uint16_t f16_bits(float value);
uint16_t bf16_bits(float value);

class PixelStore {
 public:
  // REQUIRES: no deviation is 0.
  explicit PixelStore(const PixelFormat& format);

  // Writes row y of an image of `size` to `out`, the start of the image. Pixels have three bytes.
  void store(const uint8_t* pixels, uint32_t y, Size size, std::byte* out) const;
  // The same for wide pixels (row_kernels.h).
  void store_wide(const uint8_t* wide_pixels, uint32_t y, Size size, std::byte* out) const;

  size_t size_bytes(Size size) const;
  const PixelFormat& format() const { return format_; }

 private:
  template <size_t kPixelBytes>
  void store_row(const uint8_t* pixels, uint32_t y, Size size, std::byte* out) const;

  PixelFormat format_;
  std::array<std::array<float, 256>, kChannels> f32_{};
  std::array<std::array<uint16_t, 256>, kChannels> f16_{};  // or bf16
};

}  // namespace millrace::image
