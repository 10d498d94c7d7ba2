#include "format/parquet/row_fields.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/text.h"

namespace millrace::format::parquet {
namespace {

using data::ElementType;

constexpr std::string_view kValidity = ".valid";

// "2,3" or "-1,4"; empty if it is anything else.
std::vector<int64_t> parse_shape(std::string_view text) {
  std::vector<int64_t> shape;
  while (!text.empty()) {
    int64_t length = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
    const bool is_right = error == std::errc() && length >= (shape.empty() ? -1 : 0) &&
                          length < int64_t{1} << 40 && shape.size() < data::Shape::kMaxAxes;
    if (!is_right) return {};
    shape.push_back(length);
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    if (!text.empty() && text[0] != ',') return {};
    if (!text.empty()) text.remove_prefix(1);
  }
  return shape;
}

RowField field_of(const ParquetFile& file, const Column& column, size_t place) {
  RowField field{.name = column.name,
                 .column = place,
                 .type = column.type,
                 .item_bytes = column.item_bytes,
                 .refuses_nulls = column.can_be_null() && !column.is_float() && !column.is_bytes(),
                 .is_list = column.is_list,
                 .shape = {}};
  if (column.is_list || column.is_bytes()) {
    field.shape = {-1};
    const std::string* property = file.property(shape_property(column.name));
    const auto shape = property == nullptr ? std::vector<int64_t>() : parse_shape(*property);
    if (!shape.empty()) field.shape = shape;
    // The items of a list of fixed-length byte arrays have a length too.
    const size_t element = data::element_bytes(column.type);
    if (column.item_bytes > element) {
      field.shape = {-1, static_cast<int64_t>(column.item_bytes / element)};
    }
  } else if (column.item_bytes > data::element_bytes(column.type)) {
    field.shape = {static_cast<int64_t>(column.item_bytes)};
  }
  return field;
}

RowField validity_of(const RowField& field) {
  RowField validity = field;
  validity.name += kValidity;
  validity.type = ElementType::kBool;
  validity.is_validity = true;
  validity.refuses_nulls = false;
  validity.shape.clear();
  return validity;
}

bool is_fixed(const RowField& field) {
  return field.is_validity || (!field.is_list && field.item_bytes != 0);
}

data::Shape fixed_shape(const RowField& field) {
  data::Shape shape;
  if (!field.shape.empty()) shape = {static_cast<uint64_t>(field.shape[0])};
  return shape;
}

bool has_column(const ParquetFile& file, std::string_view name) {
  return std::any_of(file.columns().begin(), file.columns().end(),
                     [&](const Column& column) { return column.name == name; });
}

// The column that a name belongs to: "x" for "x.valid", unless there is a column of that name.
std::string column_named(const ParquetFile& file, const std::string& name) {
  if (!name.ends_with(kValidity) || has_column(file, name)) return name;
  return name.substr(0, name.size() - kValidity.size());
}

}  // namespace

std::string shape_property(std::string_view column) {
  return fmt::format("millrace.shape:{}", column);
}

Result<RowFields> RowFields::make(const ParquetFile& file, std::span<const std::string> names) {
  RowFields out;
  std::vector<std::string> columns;
  for (const std::string& name : names) {
    const std::string column = column_named(file, name);
    if (std::find(columns.begin(), columns.end(), column) == columns.end()) {
      columns.push_back(column);
    }
  }
  ASSIGN_OR_RETURN(out.chosen_, file.choose(columns));
  std::vector<RowField> whole;
  for (size_t place = 0; place < out.chosen_.size(); ++place) {
    whole.push_back(field_of(file, file.columns()[out.chosen_[place]], place));
  }
  if (names.empty()) out.fields_ = whole;
  for (const std::string& name : names) {
    const std::string column = column_named(file, name);
    RowField& field = *std::find_if(whole.begin(), whole.end(),
                                    [&](const RowField& each) { return each.name == column; });
    out.fields_.push_back(column == name ? field : validity_of(field));
  }
  for (RowField& field : out.fields_) {
    const bool has_validity = std::any_of(
        out.fields_.begin(), out.fields_.end(),
        [&](const RowField& each) { return each.is_validity && each.column == field.column; });
    if (has_validity) field.refuses_nulls = false;
  }
  if (std::all_of(out.fields_.begin(), out.fields_.end(), is_fixed)) {
    std::vector<PackedField> specs;
    for (const RowField& field : out.fields_) {
      specs.push_back({field.name, field.type, fixed_shape(field)});
    }
    const FieldsPacker packer(specs);
    out.zeros_.resize(packer.size_bytes());
    packer.write_head(out.zeros_);
    for (size_t i = 0; i < out.fields_.size(); ++i) {
      out.places_.push_back(
          static_cast<size_t>(packer.field(out.zeros_, i).data() - out.zeros_.data()));
    }
  }
  return out;
}

Result<data::Shape> RowFields::shape_of(const RowField& field, ByteView bytes) const {
  const uint64_t count = bytes.size() / data::element_bytes(field.type);
  if (field.shape.size() == 1 && field.shape[0] < 0) return data::Shape{count};
  std::vector<uint64_t> lengths;
  uint64_t product = 1;
  for (const int64_t length : field.shape) {
    lengths.push_back(static_cast<uint64_t>(std::max<int64_t>(length, 0)));
    if (length >= 0 && __builtin_mul_overflow(product, lengths.back(), &product)) product = 0;
  }
  if (!field.shape.empty() && field.shape[0] < 0) {
    lengths[0] = product == 0 ? 0 : count / product;
    product *= lengths[0];
  }
  if (product != count) {
    return fail(Errc::kCorrupt, "column '{}' has {} elements, which do not form [{}]",
                printable(field.name), count, fmt::join(field.shape, ", "));
  }
  return data::Shape::make(lengths);
}

Status RowFields::check_nulls(const RowGroupColumns& group, uint64_t row) const {
  for (const RowField& field : fields_) {
    if (!field.refuses_nulls) continue;
    const uint8_t validity = group.columns[field.column].validity(row);
    // A list that is null is empty.
    if (validity == 1 || (field.is_list && validity == 0)) continue;
    return fail(Errc::kInvalidArgument,
                "column '{}' is null, or has a null in its list; {} has no such value. Choose the "
                "column '{}{}' too, then it reads as 0",
                printable(field.name), data::element_name(field.type), printable(field.name),
                kValidity);
  }
  return {};
}

Result<FieldsPacker> RowFields::packer_of(const RowGroupColumns& group, uint64_t row) const {
  std::vector<PackedField> specs;
  specs.reserve(fields_.size());
  for (const RowField& field : fields_) {
    PackedField spec{field.name, field.type, fixed_shape(field)};
    if (!is_fixed(field)) {
      const ByteView bytes = group.columns[field.column].row(row, field.item_bytes);
      ASSIGN_OR_RETURN(spec.shape, shape_of(field, bytes));
    }
    specs.push_back(std::move(spec));
  }
  return FieldsPacker(specs);
}

void RowFields::fill(const FieldsPacker& packer, const RowGroupColumns& group, uint64_t row,
                     MutableByteView out) const {
  // Also the gaps between fields: equal rows are equal bytes.
  std::memset(out.data(), 0, packer.size_bytes());
  packer.write_head(out);
  for (size_t i = 0; i < fields_.size(); ++i) {
    const RowField& field = fields_[i];
    const ColumnData& column = group.columns[field.column];
    const MutableByteView place = packer.field(out, i);
    if (field.is_validity) {
      place[0] = static_cast<std::byte>(column.validity(row) == 1 ? 1 : 0);
      continue;
    }
    const ByteView bytes = column.row(row, field.item_bytes);
    if (!bytes.empty()) std::memcpy(place.data(), bytes.data(), bytes.size());
  }
}

// A row of 200 numbers is 200 copies of a few bytes: their lengths as constants make them one
// instruction each.
void RowFields::fill_fixed(const RowGroupColumns& group, uint64_t row, std::byte* out) const {
  std::memcpy(out, zeros_.data(), zeros_.size());
  for (size_t i = 0; i < fields_.size(); ++i) {
    const RowField& field = fields_[i];
    const ColumnData& column = group.columns[field.column];
    std::byte* place = out + places_[i];
    const std::byte* from = column.bytes + row * field.item_bytes;
    if (field.is_validity) {
      *place = static_cast<std::byte>(column.validity(row) == 1 ? 1 : 0);
    } else if (field.item_bytes == 4) {
      std::memcpy(place, from, 4);
    } else if (field.item_bytes == 8) {
      std::memcpy(place, from, 8);
    } else {
      std::memcpy(place, from, field.item_bytes);
    }
  }
}

Result<ByteView> RowFields::pack(const RowGroupColumns& group, uint64_t row,
                                 data::Buffer& room) const {
  RETURN_IF_ERROR(check_nulls(group, row));
  if (!zeros_.empty()) {
    const MutableByteView out = room.room(zeros_.size());
    fill_fixed(group, row, out.data());
    return ByteView(out);
  }
  ASSIGN_OR_RETURN(const FieldsPacker packer, packer_of(group, row));
  const MutableByteView out = room.room(packer.size_bytes());
  fill(packer, group, row, out);
  return ByteView(out);
}

Result<size_t> RowFields::pack_into(const RowGroupColumns& group, uint64_t row,
                                    MutableByteView out) const {
  RETURN_IF_ERROR(check_nulls(group, row));
  const auto check_room = [&](size_t size) -> Status {
    if (size <= out.size()) return {};
    return fail(Errc::kExhausted, "has {} bytes, but there is room for {}", size, out.size());
  };
  if (!zeros_.empty()) {
    RETURN_IF_ERROR(check_room(zeros_.size()));
    fill_fixed(group, row, out.data());
    return zeros_.size();
  }
  ASSIGN_OR_RETURN(const FieldsPacker packer, packer_of(group, row));
  RETURN_IF_ERROR(check_room(packer.size_bytes()));
  fill(packer, group, row, out);
  return packer.size_bytes();
}

}  // namespace millrace::format::parquet
