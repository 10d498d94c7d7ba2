#include "bench/generate/content.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "bench/generate/images/smooth_field.h"

namespace millrace::bench {
namespace {

using data::ElementType;

constexpr size_t kPieceElements = 1024;  // of smooth content, on the stack

// Turns eight random bytes into elements of the type. Floats become numbers in [0, 1), or [1, 2) if
// they are short: random bits would be NaN now and then.
template <ElementType kType>
uint64_t as_elements(uint64_t word) {
  if constexpr (kType == ElementType::kF32) {
    const std::array<float, 2> pair = {static_cast<float>((word & 0xffffffff) >> 8) * 0x1p-24f,
                                       static_cast<float>(word >> 40) * 0x1p-24f};
    std::memcpy(&word, pair.data(), sizeof(word));
  } else if constexpr (kType == ElementType::kF64) {
    const double number = static_cast<double>(word >> 11) * 0x1p-53;
    std::memcpy(&word, &number, sizeof(word));
  } else if constexpr (kType == ElementType::kF16) {
    word = (word & 0x03ff03ff03ff03ff) | 0x3c003c003c003c00;
  } else if constexpr (kType == ElementType::kBf16) {
    word = (word & 0x007f007f007f007f) | 0x3f803f803f803f80;
  } else if constexpr (kType == ElementType::kBool) {
    word &= 0x0101010101010101;
  }
  return word;
}

template <ElementType kType>
void fill_random(uint64_t key, uint64_t offset_bytes, MutableByteView out) {
  uint64_t index = offset_bytes / 8;
  size_t at = 0;
  for (; at + 8 <= out.size(); at += 8, ++index) {
    const uint64_t word = as_elements<kType>(random_word(key, index));
    std::memcpy(out.data() + at, &word, sizeof(word));
  }
  if (at < out.size()) {
    const uint64_t word = as_elements<kType>(random_word(key, index));
    std::memcpy(out.data() + at, &word, out.size() - at);
  }
}

void fill_random(ElementType type, uint64_t key, uint64_t offset_bytes, MutableByteView out) {
  switch (type) {
    case ElementType::kF32:
      return fill_random<ElementType::kF32>(key, offset_bytes, out);
    case ElementType::kF64:
      return fill_random<ElementType::kF64>(key, offset_bytes, out);
    case ElementType::kF16:
      return fill_random<ElementType::kF16>(key, offset_bytes, out);
    case ElementType::kBf16:
      return fill_random<ElementType::kBf16>(key, offset_bytes, out);
    case ElementType::kBool:
      return fill_random<ElementType::kBool>(key, offset_bytes, out);
    default:
      return fill_random<ElementType::kU8>(key, offset_bytes, out);
  }
}

// Half of a random byte chooses a letter; a word has seven of them on average.
void fill_text(uint64_t key, uint64_t offset_bytes, MutableByteView out) {
  static constexpr std::string_view kLetters = "etaoinshrdlucm  ";
  fill_random<ElementType::kU8>(key, offset_bytes, out);
  for (std::byte& byte : out) {
    byte = static_cast<std::byte>(kLetters[std::to_integer<size_t>(byte) & 15]);
  }
}

// Half of a float32 is a bfloat16.
uint16_t upper_half(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  return static_cast<uint16_t>(bits >> 16);
}

// Positive normal numbers only, as smooth fields have. Cuts the digits that do not fit.
uint16_t half_of(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  const int exponent = static_cast<int>(bits >> 23) - 127 + 15;
  if (exponent <= 0) return 0;
  return static_cast<uint16_t>(static_cast<uint32_t>(exponent) << 10 | (bits >> 13 & 0x3ff));
}

template <typename Convert>
void store_each(std::span<const int32_t> levels, std::byte* out, Convert convert) {
  for (const int32_t level : levels) {
    const auto element = convert(level);
    std::memcpy(out, &element, sizeof(element));
    out += sizeof(element);
  }
}

// Levels of a smooth field as elements: integers as they are (cut to their type), floats times a
// power of two, which is exact.
void store_levels(ElementType type, std::span<const int32_t> levels, float scale, std::byte* out) {
  const auto number = [scale](int32_t level) { return static_cast<float>(level) * scale; };
  switch (type) {
    case ElementType::kF16:
      return store_each(levels, out, [&](int32_t level) { return half_of(number(level)); });
    case ElementType::kBf16:
      return store_each(levels, out, [&](int32_t level) { return upper_half(number(level)); });
    case ElementType::kF32:
      return store_each(levels, out, number);
    case ElementType::kF64:
      return store_each(levels, out, [&](int32_t level) { return double{number(level)}; });
    case ElementType::kBool:
      return store_each(levels, out, [](int32_t level) { return uint8_t(level & 1); });
    default:
      break;
  }
  switch (data::element_bytes(type)) {
    case 1:
      return store_each(levels, out, [](int32_t level) { return static_cast<uint8_t>(level); });
    case 2:
      return store_each(levels, out, [](int32_t level) { return static_cast<uint16_t>(level); });
    case 4:
      return store_each(levels, out, [](int32_t level) { return level; });
    default:
      return store_each(levels, out, [](int32_t level) { return int64_t{level}; });
  }
}

// How the elements of an array form rows of pixels: [h, w], [h, w, 3] or [3, h, w].
PlaneShape plane_of(const data::Shape& shape) {
  const auto lengths = shape.lengths();
  if (lengths.empty()) return {.width = 1, .channels = 1};
  const bool has_channels = lengths.size() >= 3 && lengths.back() <= 4 && lengths.back() > 0;
  if (!has_channels) return {.width = std::max<uint64_t>(lengths.back(), 1), .channels = 1};
  return {.width = std::max<uint64_t>(lengths[lengths.size() - 2], 1), .channels = lengths.back()};
}

// `scale` makes levels to floats; it is a power of two.
void fill_smooth(const SmoothField& field, ElementType type, float scale, uint64_t first,
                 MutableByteView out) {
  std::array<int32_t, kPieceElements> levels;
  const size_t element_bytes = data::element_bytes(type);
  while (!out.empty()) {
    const size_t count = std::min(out.size() / element_bytes, kPieceElements);
    field.levels(first, std::span(levels).first(count));
    store_levels(type, std::span(levels).first(count), scale, out.data());
    first += count;
    out = out.subspan(count * element_bytes);
  }
}

// Bytes without a type of their own are floats in physics.
ElementType physics_type(ElementType type) {
  return type == ElementType::kU8 ? ElementType::kF32 : type;
}

// The last of the bytes may be a part of a float.
void fill_physics(uint64_t key, const ContentArray& array, uint64_t offset_bytes,
                  MutableByteView out) {
  const ElementType type = physics_type(array.type);
  const size_t element_bytes = data::element_bytes(type);
  const SmoothField field(key, plane_of(array.shape), physics_waves());
  const size_t whole = out.size() / element_bytes * element_bytes;
  constexpr float kScale = 0x1p-12f;
  fill_smooth(field, type, kScale, offset_bytes / element_bytes, out.first(whole));
  if (whole < out.size()) {
    std::array<std::byte, 8> last{};
    fill_smooth(field, type, kScale, (offset_bytes + whole) / element_bytes,
                std::span(last).first(element_bytes));
    std::memcpy(out.data() + whole, last.data(), out.size() - whole);
  }
}

uint64_t mixed(uint64_t key, uint64_t number) { return random_word(key ^ number, number + 1); }

}  // namespace

uint64_t Content::key_of(const ContentArray& array) const {
  uint64_t key = mixed(0x6d696c6c72616365, seed_);
  key = mixed(key, static_cast<uint64_t>(array.sample.file.split));
  key = mixed(key, array.sample.file.index);
  key = mixed(key, array.sample.sample);
  return mixed(key, array.field);
}

void Content::fill(const ContentArray& array, uint64_t offset_bytes, MutableByteView out) const {
  if (out.empty()) return;
  const bool is_words = array.is_text || kind_ == ContentKind::kText;
  if (is_words && array.type == ElementType::kU8) {
    return fill_text(key_of(array), offset_bytes, out);
  }
  switch (kind_) {
    case ContentKind::kText:
    case ContentKind::kRandom:
      return fill_random(array.type, key_of(array), offset_bytes, out);
    case ContentKind::kPhoto: {
      const SmoothField field(key_of(array), plane_of(array.shape), photo_waves());
      return fill_smooth(field, array.type, 0x1p-8f, offset_bytes / data::element_bytes(array.type),
                         out);
    }
    case ContentKind::kPhysics:
      return fill_physics(key_of(array), array, offset_bytes, out);
    case ContentKind::kZero:
      std::memset(out.data(), 0, out.size());
      return;
  }
}

ContentArray record_of(const Layout& layout, const SampleRef& sample) {
  return {
      .sample = sample, .type = layout.element_type(), .shape = layout.record_shape(sample.file)};
}

}  // namespace millrace::bench
