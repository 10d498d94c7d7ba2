#include "format/parquet/row_fields.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/text/text.h"

namespace millrace::format::parquet {
namespace {

using data::ElementType;

constexpr std::string_view kValidity = ".valid";
// Rows that are filled together. A column's values go to one cache line of each row, and those of
// the next columns to the same line: so many lines stay in the fastest cache.
constexpr uint64_t kBlockRows = 256;
constexpr uint64_t kSpreadRows = 1024;  // per task

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

// Where the values of a column go: to the same place of every row.
struct Slots {
  std::byte* first;
  size_t stride_bytes;
  uint64_t count;
};

template <size_t kBytes>
void spread_fixed(const std::byte* from, const Slots& to) {
  for (uint64_t i = 0; i < to.count; ++i) {
    std::memcpy(to.first + i * to.stride_bytes, from + i * kBytes, kBytes);
  }
}

// Lengths as constants make a copy one instruction.
void spread_values(const std::byte* from, size_t item_bytes, const Slots& to) {
  if (item_bytes == 1) return spread_fixed<1>(from, to);
  if (item_bytes == 4) return spread_fixed<4>(from, to);
  if (item_bytes == 8) return spread_fixed<8>(from, to);
  for (uint64_t i = 0; i < to.count; ++i) {
    std::memcpy(to.first + i * to.stride_bytes, from + i * item_bytes, item_bytes);
  }
}

}  // namespace

uint64_t GroupRows::memory_bytes() const {
  return sizeof(*this) + rows.capacity_bytes() + refused.capacity() * sizeof(uint32_t) +
         columns.memory_bytes();
}

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
    std::vector<std::byte> sample(packer.size_bytes());
    packer.write_head(sample);
    for (size_t i = 0; i < out.fields_.size(); ++i) {
      out.places_.push_back(static_cast<size_t>(packer.field(sample, i).data() - sample.data()) -
                            packer.head_bytes());
    }
    out.row_bytes_ = packer.size_bytes() - packer.head_bytes();
    sample.resize(packer.head_bytes());
    out.head_ = std::move(sample);
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

std::vector<uint32_t> RowFields::refused_rows(const RowGroupColumns& group) const {
  std::vector<uint32_t> refused;
  for (uint32_t i = 0; i < fields_.size(); ++i) {
    const RowField& field = fields_[i];
    const std::vector<uint8_t>& valid = group.columns[field.column].valid;
    if (!field.refuses_nulls || valid.empty()) continue;
    for (uint64_t row = 0; row < group.row_count; ++row) {
      // A list that is null is empty.
      if (valid[row] == 1 || (field.is_list && valid[row] == 0)) continue;
      if (refused.empty()) refused.resize(group.row_count);
      if (refused[row] == 0) refused[row] = i + 1;
    }
  }
  return refused;
}

Status RowFields::check_nulls(const GroupRows& group, uint64_t row) const {
  if (group.refused.empty() || group.refused[row] == 0) return {};
  const RowField& field = fields_[group.refused[row] - 1];
  return fail(Errc::kInvalidArgument,
              "column '{}' is null, or has a null in its list; {} has no such value. Choose the "
              "column '{}{}' too, then it reads as 0",
              printable(field.name), data::element_name(field.type), printable(field.name),
              kValidity);
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

void RowFields::fill_fixed(const GroupRows& group, uint64_t row, std::byte* out) const {
  std::memcpy(out, head_.data(), head_.size());
  if (row_bytes_ > 0) std::memcpy(out + head_.size(), group.bytes + row * row_bytes_, row_bytes_);
}

void RowFields::spread(const RowGroupColumns& group, uint64_t begin, uint64_t end,
                       std::byte* rows) const {
  for (uint64_t first = begin; first < end; first += kBlockRows) {
    const uint64_t count = std::min(kBlockRows, end - first);
    std::byte* const block = rows + first * row_bytes_;
    // Also the gaps between fields: equal rows are equal bytes.
    std::memset(block, 0, count * row_bytes_);
    for (size_t i = 0; i < fields_.size(); ++i) {
      const RowField& field = fields_[i];
      const ColumnData& column = group.columns[field.column];
      if (field.is_validity) {
        for (uint64_t row = 0; row < count; ++row) {
          const bool is_valid = column.validity(first + row) == 1;
          block[row * row_bytes_ + places_[i]] = static_cast<std::byte>(is_valid ? 1 : 0);
        }
        continue;
      }
      spread_values(column.bytes + first * field.item_bytes, field.item_bytes,
                    {block + places_[i], row_bytes_, count});
    }
  }
}

Result<GroupRows> RowFields::arrange(RowGroupColumns columns, ThreadPool* pool) const {
  GroupRows group;
  group.row_count = columns.row_count;
  group.refused = refused_rows(columns);
  if (!has_fixed_rows()) {
    group.columns = std::move(columns);
    return group;
  }
  uint64_t size_bytes = 0;
  if (__builtin_mul_overflow(columns.row_count, row_bytes_, &size_bytes)) {
    return fail(Errc::kExhausted, "{} rows of {} bytes are too many", columns.row_count,
                row_bytes_);
  }
  std::byte* const rows = group.rows.room(size_bytes).data();
  group.bytes = rows;
  const auto work = [&](size_t part) -> Status {
    const uint64_t begin = part * kSpreadRows;
    spread(columns, begin, std::min(begin + kSpreadRows, columns.row_count), rows);
    return {};
  };
  const uint64_t parts = row_bytes_ == 0 ? 0 : (columns.row_count + kSpreadRows - 1) / kSpreadRows;
  if (pool != nullptr) {
    RETURN_IF_ERROR(pool->parallel_for(parts, work));
  } else {
    for (uint64_t part = 0; part < parts; ++part) RETURN_IF_ERROR(work(part));
  }
  return group;
}

Result<ByteView> RowFields::pack(const GroupRows& group, uint64_t row, data::Buffer& room) const {
  RETURN_IF_ERROR(check_nulls(group, row));
  if (has_fixed_rows()) {
    const MutableByteView out = room.room(fixed_bytes());
    fill_fixed(group, row, out.data());
    return ByteView(out);
  }
  ASSIGN_OR_RETURN(const FieldsPacker packer, packer_of(group.columns, row));
  const MutableByteView out = room.room(packer.size_bytes());
  fill(packer, group.columns, row, out);
  return ByteView(out);
}

Result<size_t> RowFields::pack_into(const GroupRows& group, uint64_t row,
                                    MutableByteView out) const {
  RETURN_IF_ERROR(check_nulls(group, row));
  const auto check_room = [&](size_t size) -> Status {
    if (size <= out.size()) return {};
    return fail(Errc::kExhausted, "has {} bytes, but there is room for {}", size, out.size());
  };
  if (has_fixed_rows()) {
    RETURN_IF_ERROR(check_room(fixed_bytes()));
    fill_fixed(group, row, out.data());
    return fixed_bytes();
  }
  ASSIGN_OR_RETURN(const FieldsPacker packer, packer_of(group.columns, row));
  RETURN_IF_ERROR(check_room(packer.size_bytes()));
  fill(packer, group.columns, row, out);
  return packer.size_bytes();
}

}  // namespace millrace::format::parquet
