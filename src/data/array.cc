#include "data/array.h"

#include <fmt/ranges.h>

#include <cassert>

namespace millrace::data {

size_t element_bytes(ElementType type) {
  switch (type) {
    case ElementType::kU8:
    case ElementType::kI8:
    case ElementType::kBool:
      return 1;
    case ElementType::kU16:
    case ElementType::kI16:
    case ElementType::kF16:
    case ElementType::kBf16:
      return 2;
    case ElementType::kU32:
    case ElementType::kI32:
    case ElementType::kF32:
      return 4;
    case ElementType::kU64:
    case ElementType::kI64:
    case ElementType::kF64:
      break;
  }
  return 8;
}

std::string_view element_name(ElementType type) {
  switch (type) {
    case ElementType::kU8:
      return "uint8";
    case ElementType::kI8:
      return "int8";
    case ElementType::kU16:
      return "uint16";
    case ElementType::kI16:
      return "int16";
    case ElementType::kU32:
      return "uint32";
    case ElementType::kI32:
      return "int32";
    case ElementType::kU64:
      return "uint64";
    case ElementType::kI64:
      return "int64";
    case ElementType::kF16:
      return "float16";
    case ElementType::kBf16:
      return "bfloat16";
    case ElementType::kF32:
      return "float32";
    case ElementType::kF64:
      return "float64";
    case ElementType::kBool:
      break;
  }
  return "bool";
}

Shape::Shape(std::initializer_list<uint64_t> lengths) {
  assert(lengths.size() <= kMaxAxes);
  for (const uint64_t length : lengths) lengths_[axis_count_++] = length;
}

Result<Shape> Shape::make(std::span<const uint64_t> lengths) {
  if (lengths.size() > kMaxAxes) {
    return fail(Errc::kUnsupported, "the array has {} axes; at most {} are supported",
                lengths.size(), kMaxAxes);
  }
  Shape shape;
  uint64_t count = 1;
  for (const uint64_t length : lengths) {
    // Below 2^60 elements, the size in bytes also fits at eight bytes per element.
    if (__builtin_mul_overflow(count, length, &count) || count >= uint64_t{1} << 60) {
      return fail(Errc::kCorrupt, "an array of shape [{}] has 2^60 or more elements",
                  fmt::join(lengths, ", "));
    }
    shape.lengths_[shape.axis_count_++] = length;
  }
  return shape;
}

uint64_t Shape::element_count() const {
  uint64_t count = 1;
  for (const uint64_t length : lengths()) count *= length;
  return count;
}

std::string description(ElementType type, const Shape& shape) {
  return fmt::format("{} of {}", shape.text(), element_name(type));
}

std::string description(const FieldSpec& spec) {
  if (!spec.is_ragged()) return description(spec.type, spec.shape);
  const std::string item = spec.shape.text();
  return fmt::format("[any{}{} of {}", spec.shape.axis_count() > 0 ? ", " : "", item.substr(1),
                     element_name(spec.type));
}

std::string Shape::text() const { return fmt::format("[{}]", fmt::join(lengths(), ", ")); }

}  // namespace millrace::data
