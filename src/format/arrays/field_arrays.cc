#include "format/arrays/field_arrays.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <utility>

#include "base/text/text.h"
#include "format/arrays/integer_types.h"
#include "format/arrays/npy.h"
#include "format/text/number_text.h"

namespace millrace::format {
namespace {

using data::ArrayView;
using data::ElementType;
using data::FieldSpec;

void copy(ByteView from, MutableByteView to) {
  if (!from.empty()) std::memcpy(to.data(), from.data(), from.size());
}

bool is_npy_name(std::string_view name) { return name == "npy" || name.ends_with(".npy"); }

bool is_text_name(std::string_view name) {
  return name == "cls" || name == "id" || name == "index" || name == "txt";
}

std::optional<int64_t> integer_of(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) {
    text.remove_suffix(1);
  }
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// False if the type is not an integer or the value does not fit.
bool put_integer(int64_t value, ElementType type, MutableByteView out) {
  return with_integer_type(type, false, [&]<typename T>(T) {
    if (!std::in_range<T>(value)) return false;
    const T narrow = static_cast<T>(value);
    std::memcpy(out.data(), &narrow, sizeof(narrow));
    return true;
  });
}

bool is_plain_bytes(const Field& field) {
  return field.array.type == ElementType::kU8 && field.array.shape.axis_count() == 1;
}

// A list (one axis) has no shape: only its length must match.
bool shape_fits(const ArrayView& array, const FieldSpec& spec) {
  return array.shape == spec.shape || (array.shape.axis_count() <= 1 &&
                                       array.shape.element_count() == spec.shape.element_count());
}

Error does_not_fit(const Field& field, const FieldSpec& spec) {
  return fail(Errc::kInvalidArgument, "'{}' has a number that does not fit {}; choose another type",
              printable(field.name), data::element_name(spec.type));
}

Status place(const ArrayView& array, std::string_view name, const FieldSpec& spec,
             MutableByteView out) {
  if (array.type == spec.type && shape_fits(array, spec) && array.bytes.size() == out.size()) {
    copy(array.bytes, out);
    return {};
  }
  return fail(Errc::kInvalidArgument, "'{}' is {}, but {} is expected", printable(name),
              data::description(array.type, array.shape), data::description(spec));
}

Status place_text(const Field& field, const FieldSpec& spec, MutableByteView out) {
  const std::string_view text = text_of(field.array.bytes);
  const auto value = integer_of(text);
  if (value && put_integer(*value, spec.type, out)) return {};
  return fail(Errc::kInvalidArgument, "'{}' is '{}', but an integer that fits {} is expected",
              printable(field.name), printable(text.substr(0, 40)), data::element_name(spec.type));
}

}  // namespace

bool is_npy(const Field& field) { return is_plain_bytes(field) && is_npy_name(field.name); }

bool is_integer_text(const Field& field) {
  return is_plain_bytes(field) && is_text_name(field.name) &&
         integer_of(text_of(field.array.bytes)).has_value();
}

Result<ArrayView> array_of(const Field& field) {
  if (!is_npy(field)) return field.array;
  return parse_npy(field.array.bytes).within(printable(field.name));
}

Status place_field(const Field& field, const FieldSpec& spec, MutableByteView out) {
  if (is_npy(field)) {
    ASSIGN_OR_RETURN(const ArrayView array, array_of(field));
    if (array.shape != spec.shape) {
      return fail(Errc::kInvalidArgument, "'{}' is {}, but {} is expected", printable(field.name),
                  data::description(array.type, array.shape), data::description(spec));
    }
    return place(array, field.name, spec, out);
  }
  if (is_plain_bytes(field)) {
    if (is_text_name(field.name) && spec.shape.element_count() == 1) {
      return place_text(field, spec, out);
    }
    if (field.array.bytes.size() == out.size()) {
      copy(field.array.bytes, out);
      return {};
    }
  }
  if (field.is_number_text && field.array.type != spec.type && shape_fits(field.array, spec)) {
    if (convert_numbers(field.array.type, field.array.bytes, spec.type, out)) return {};
    return does_not_fit(field, spec);
  }
  return place(field.array, field.name, spec, out);
}

bool is_copied(const Field& field, const FieldSpec& spec) {
  if (is_npy(field) || field.array.bytes.size() != spec.size_bytes()) return false;
  if (is_plain_bytes(field)) {
    return !is_text_name(field.name) || spec.shape.element_count() != 1;
  }
  return field.array.type == spec.type && shape_fits(field.array, spec);
}

namespace {

// The items of numbers as text, whose type is only a guess. REQUIRES: a whole number of items.
Result<Items> converted_items(const Field& field, const FieldSpec& spec) {
  const uint64_t elements = field.array.shape.element_count();
  Items items;
  items.length = elements / spec.shape.element_count();
  items.converted.resize(elements * data::element_bytes(spec.type));
  if (!convert_numbers(field.array.type, field.array.bytes, spec.type, items.converted)) {
    return does_not_fit(field, spec);
  }
  items.bytes = items.converted;
  return items;
}

}  // namespace

Result<Items> items_of(const Field& field, const FieldSpec& spec) {
  ASSIGN_OR_RETURN(const ArrayView array, array_of(field));
  const auto lengths = array.shape.lengths();
  const uint64_t item_elements = spec.shape.element_count();
  if (array.type == spec.type && !lengths.empty() &&
      std::ranges::equal(lengths.subspan(1), spec.shape.lengths())) {
    return Items{array.bytes, lengths[0]};
  }
  // numpy.array([]) has the type float64, whatever the others are.
  if (lengths.size() == 1 && lengths[0] == 0) return Items{};
  // A list has no shape: it must only be a whole number of items. Plain bytes have no type either.
  const bool is_list = array.type == spec.type && lengths.size() <= 1;
  if (item_elements > 0 && is_list && array.shape.element_count() % item_elements == 0) {
    return Items{array.bytes, array.shape.element_count() / item_elements};
  }
  if (item_elements > 0 && is_plain_bytes(field) && !is_npy(field) &&
      array.bytes.size() % spec.size_bytes() == 0) {
    return Items{array.bytes, array.bytes.size() / spec.size_bytes()};
  }
  if (field.is_number_text && item_elements > 0 &&
      array.shape.element_count() % item_elements == 0) {
    return converted_items(field, spec);
  }
  return fail(Errc::kInvalidArgument, "'{}' is {}, but {} is expected", printable(field.name),
              data::description(array.type, array.shape), data::description(spec));
}

Status place_items(const Items& items, const data::Output& output) {
  ASSIGN_OR_RETURN(const MutableByteView out, output.room(items.length));
  copy(items.bytes.first(out.size()), out);
  return {};
}

Status place_some(const Items& items, std::span<const uint32_t> kept, const data::Output& output) {
  ASSIGN_OR_RETURN(const MutableByteView out, output.room(kept.size()));
  const size_t item_bytes = items.length == 0 ? 0 : items.bytes.size() / items.length;
  for (size_t i = 0; i * item_bytes < out.size(); ++i) {
    copy(items.bytes.subspan(kept[i] * item_bytes, item_bytes), out.subspan(i * item_bytes));
  }
  return {};
}

Result<Field> table_of(std::string_view name, std::span<const Field> columns,
                       std::vector<std::byte>& room) {
  const ArrayView& first = columns[0].array;
  const uint64_t length = first.shape.element_count();
  for (const Field& column : columns) {
    const ArrayView& array = column.array;
    const bool is_like_first =
        array.shape.element_count() == length && (array.type == first.type || length == 0);
    if (is_like_first && array.shape.axis_count() <= 1) continue;
    return fail(Errc::kInvalidArgument, "'{}' is {}, but '{}' is {}; the columns must be alike",
                printable(column.name), data::description(array.type, array.shape),
                printable(columns[0].name), data::description(first.type, first.shape));
  }
  const size_t element_bytes = data::element_bytes(first.type);
  room.resize(length * columns.size() * element_bytes);
  std::byte* out = room.data();
  for (uint64_t row = 0; row < length; ++row) {
    for (const Field& column : columns) {
      std::memcpy(out, column.array.bytes.data() + row * element_bytes, element_bytes);
      out += element_bytes;
    }
  }
  return Field{.name = name,
               .array = {.type = first.type, .shape = {length, columns.size()}, .bytes = room}};
}

}  // namespace millrace::format
