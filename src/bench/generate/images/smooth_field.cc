#include "bench/generate/images/smooth_field.h"

#include <algorithm>
#include <bit>

#include "bench/generate/content.h"

namespace millrace::bench {
namespace {

// Chosen so that a JPEG of quality 75 takes 1.1 bits per pixel and a PNG 4.6 bits per byte, nearly
// as the photographs of Kodak's test set do.
constexpr Wave kPhoto[] = {{512, 60}, {128, 30}, {32, 15}, {14, 12}, {8, 12}};
constexpr Wave kPhysics[] = {{1024, 3 << 20}, {128, 1 << 18}, {16, 1 << 14}};

// Detail has the same brightness in all colours, as in most photographs; only areas differ.
constexpr uint32_t kColourPeriod = 64;

// How much a phase turns from one pixel to the next. A full turn is 2^32.
uint32_t step_of(uint32_t random, uint32_t period) {
  const uint32_t step = (random >> 1 | 0x80000000) / period;
  return random % 2 == 0 ? step : ~step;
}

int32_t triangle(uint32_t phase, int32_t amplitude) {
  const uint32_t folded = phase < 0x80000000 ? phase : ~phase;  // up, and down again
  return static_cast<int32_t>((int64_t{folded >> 15} - 0x8000) * amplitude >> 15);
}

}  // namespace

Waves photo_waves() {
  return {.list = kPhoto, .middle = 128, .noise = 4, .level_min = 0, .level_max = 255};
}

Waves physics_waves() {
  return {.list = kPhysics,
          .middle = 1 << 23,
          .noise = 1 << 8,
          .level_min = 1,
          .level_max = (1 << 24) - 1};
}

void SmoothField::levels(uint64_t first, std::span<int32_t> out) const {
  fill_noise(first, out);
  const uint64_t row_elements = shape_.width * shape_.channels;
  for (size_t at = 0; at < out.size();) {
    const uint64_t element = (first + at) % row_elements;
    const auto count =
        static_cast<size_t>(std::min<uint64_t>(out.size() - at, row_elements - element));
    add_waves((first + at) / row_elements, element, out.subspan(at, count));
    at += count;
  }
  for (int32_t& level : out) level = std::clamp(level, waves_.level_min, waves_.level_max);
}

// Four elements share a random number.
void SmoothField::fill_noise(uint64_t first, std::span<int32_t> out) const {
  const uint64_t noise_key = ~key_;
  const auto width = static_cast<uint64_t>(2 * waves_.noise + 1);
  uint64_t random = random_word(noise_key, first / 4);
  for (size_t i = 0; i < out.size(); ++i) {
    const uint64_t lane = (first + i) % 4;
    if (lane == 0) random = random_word(noise_key, (first + i) / 4);
    const uint64_t unit = random >> (lane * 16) & 0xffff;
    out[i] = waves_.middle + static_cast<int32_t>(unit * width >> 16) - waves_.noise;
  }
}

void SmoothField::add_waves(uint64_t row, uint64_t first, std::span<int32_t> out) const {
  for (size_t i = 0; i < waves_.list.size(); ++i) {
    const Wave& wave = waves_.list[i];
    const uint64_t direction = random_word(key_, 2 * i);
    const uint32_t x_step = step_of(static_cast<uint32_t>(direction), wave.period);
    const uint32_t y_step = step_of(static_cast<uint32_t>(direction >> 32), wave.period);
    for (uint64_t channel = 0; channel < shape_.channels; ++channel) {
      const int turn = wave.period < kColourPeriod ? 0 : static_cast<int>(16 * channel);
      // The first element of this channel in `out`.
      auto at = static_cast<size_t>((channel + shape_.channels - first % shape_.channels) %
                                    shape_.channels);
      const uint64_t x = (first + at) / shape_.channels;
      uint32_t phase = static_cast<uint32_t>(std::rotr(random_word(key_, 2 * i + 1), turn)) +
                       static_cast<uint32_t>(row) * y_step + static_cast<uint32_t>(x) * x_step;
      for (; at < out.size(); at += shape_.channels, phase += x_step) {
        out[at] += triangle(phase, wave.amplitude);
      }
    }
  }
}

}  // namespace millrace::bench
