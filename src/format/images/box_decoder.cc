#include "format/images/box_decoder.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>

#include "format/arrays/field_arrays.h"
#include "format/arrays/integer_types.h"

namespace millrace::format {
namespace {

using data::ElementType;
using image::BoxNumbers;

constexpr size_t kNumbers = std::tuple_size_v<BoxNumbers>;

// Four numbers from `bytes`; false if the type is not supported.
bool read_box(const std::byte* bytes, ElementType type, BoxNumbers& box) {
  const auto read = [&]<typename T>(T) {
    std::array<T, kNumbers> numbers;
    std::memcpy(numbers.data(), bytes, sizeof numbers);
    for (size_t i = 0; i < kNumbers; ++i) box[i] = static_cast<double>(numbers[i]);
    return true;
  };
  if (type == ElementType::kF32) return read(float{});
  if (type == ElementType::kF64) return read(double{});
  return with_integer_type(type, false, read);
}

Status check_shape(const data::ArrayView& array) {
  const auto lengths = array.shape.lengths();
  const bool is_table = lengths.size() == 2 && lengths[1] == kNumbers;
  const bool is_list = lengths.size() == 1 && lengths[0] % kNumbers == 0;
  // No boxes at all: an empty list may have any type and shape.
  if (is_table || is_list || array.shape.element_count() == 0) return {};
  return fail(Errc::kInvalidArgument, "boxes are [count, 4], but this is {}",
              data::description(array.type, array.shape));
}

}  // namespace

Result<std::unique_ptr<BoxDecoder>> BoxDecoder::create(const image::BoxOptions& options,
                                                       const data::Ragged& ragged) {
  if (!(options.side_min >= 0 && options.area_min >= 0 && std::isfinite(options.side_min) &&
        std::isfinite(options.area_min))) {
    return fail(Errc::kInvalidArgument,
                "the smallest side and area of a box must be 0 or more pixels, not {} and {}",
                options.side_min, options.area_min);
  }
  return std::unique_ptr<BoxDecoder>(new BoxDecoder(options, ragged));
}

data::FieldSpec BoxDecoder::field() const {
  return {.name = "boxes", .type = ElementType::kF32, .shape = {kNumbers}, .ragged = ragged_};
}

Status BoxDecoder::decode(const Field& field, const image::Framing& framing,
                          const data::Output& output, Kept& kept) const {
  ASSIGN_OR_RETURN(const data::ArrayView array, array_of(field));
  RETURN_IF_ERROR(check_shape(array));
  kept.count = array.shape.element_count() / kNumbers;
  kept.indexes.clear();
  kept.numbers.clear();
  if (kept.count > std::numeric_limits<uint32_t>::max()) {
    return fail(Errc::kUnsupported, "{} boxes are too many for one image", kept.count);
  }
  const size_t box_bytes = kNumbers * data::element_bytes(array.type);
  for (uint32_t i = 0; i < kept.count; ++i) {
    BoxNumbers box;
    if (!read_box(array.bytes.data() + i * box_bytes, array.type, box)) {
      return fail(Errc::kInvalidArgument, "boxes must be float32, float64 or integers, not {}",
                  data::element_name(array.type));
    }
    for (const double number : box) {
      if (!std::isfinite(number)) {
        return fail(Errc::kInvalidArgument, "box {} has a number that is not finite", i);
      }
    }
    const auto framed = image::framed_box(box, framing, options_);
    if (!framed) continue;
    kept.indexes.push_back(i);
    for (const double number : *framed) kept.numbers.push_back(static_cast<float>(number));
  }
  return place_items({std::as_bytes(std::span(kept.numbers)), kept.indexes.size()}, output);
}

}  // namespace millrace::format
