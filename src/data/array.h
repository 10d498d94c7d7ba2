// Arrays: elements of one type in a shape, as bytes in memory. The terms are those of DLPack and
// numpy.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/base.h"
#include "base/result.h"

namespace millrace::data {

enum class ElementType : uint8_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kU64,
  kI64,
  kF16,
  kBf16,
  kF32,
  kF64,
  kBool
};

size_t element_bytes(ElementType type);
std::string_view element_name(ElementType type);  // "uint8", "float32", as in numpy and torch

// The lengths of the axes, slowest first (C order). A shape without axes has one element.
class Shape {
 public:
  static constexpr size_t kMaxAxes = 8;

  Shape() = default;
  // REQUIRES: at most kMaxAxes lengths.
  Shape(std::initializer_list<uint64_t> lengths);
  static Result<Shape> make(std::span<const uint64_t> lengths);  // checked, for lengths from a file

  std::span<const uint64_t> lengths() const { return {lengths_.data(), axis_count_}; }
  size_t axis_count() const { return axis_count_; }
  uint64_t element_count() const;  // make() ensures that it fits into 63 bits
  std::string text() const;        // "[3, 224, 224]"

  bool operator==(const Shape&) const = default;

 private:
  std::array<uint64_t, kMaxAxes> lengths_{};
  uint8_t axis_count_ = 0;
};

// How a batch holds a ragged field: one whose first axis has another length in each sample. An
// entry along that axis is an item.
struct Ragged {
  uint64_t length_max = 0;  // items of a sample; 0: not limited
  bool truncates = false;   // cut longer samples to length_max, instead of failing
  // False: the items of all rows follow each other, and offsets tell where each row begins. True:
  // every row has length_max items, or as many as the longest row if there is no length_max.
  bool is_padded = false;
  std::array<std::byte, 8> padding{};  // the element behind the items of a padded row, as in memory

  bool operator==(const Ragged&) const = default;
};

// The type and shape of one field of every decoded sample.
struct FieldSpec {
  std::string name;
  ElementType type = ElementType::kU8;
  Shape shape;                        // of one sample; of a ragged field: of one item
  std::optional<Ragged> ragged = {};  // nullopt: every sample has the same shape

  bool is_ragged() const { return ragged.has_value(); }
  // The size of one sample; of a ragged field, the size of one item.
  uint64_t size_bytes() const { return shape.element_count() * element_bytes(type); }
  bool operator==(const FieldSpec&) const = default;
};

// "[3, 224, 224] of uint8", "[any, 4] of float32".
std::string description(const FieldSpec& spec);
std::string description(ElementType type, const Shape& shape);

// Elements in memory that someone else owns.
struct ArrayView {
  ElementType type = ElementType::kU8;
  Shape shape;
  ByteView bytes;
};

}  // namespace millrace::data
