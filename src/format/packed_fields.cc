#include "format/packed_fields.h"

#include <cstring>

#include "base/bytes.h"

namespace millrace::format {
namespace {

// One cache line, so that copies of arrays are aligned for any element.
constexpr size_t kAlignment = 64;

size_t aligned(size_t bytes, size_t alignment = kAlignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

// Where a field begins. Single numbers are not spread over cache lines: a row of Parquet may have
// hundreds of them.
size_t field_begin(size_t at, data::ElementType type, size_t size_bytes) {
  return aligned(at, size_bytes < kAlignment ? data::element_bytes(type) : kAlignment);
}

template <typename T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void put_field(std::string& head, std::string_view name, data::ElementType type,
               const data::Shape& shape) {
  put(head, static_cast<uint8_t>(type));
  put(head, static_cast<uint8_t>(shape.axis_count()));
  put(head, static_cast<uint32_t>(name.size()));
  for (const uint64_t length : shape.lengths()) put(head, length);
  head += name;
}

size_t array_bytes(data::ElementType type, const data::Shape& shape) {
  return shape.element_count() * data::element_bytes(type);
}

Result<Field> read_field(ByteReader& reader) {
  ASSIGN_OR_RETURN(const uint8_t type, reader.read<uint8_t>());
  ASSIGN_OR_RETURN(const uint8_t axis_count, reader.read<uint8_t>());
  ASSIGN_OR_RETURN(const uint32_t name_bytes, reader.read<uint32_t>());
  if (type > static_cast<uint8_t>(data::ElementType::kBool)) {
    return fail(Errc::kCorrupt, "a packed field has the unknown type {}", type);
  }
  std::vector<uint64_t> lengths;
  for (uint8_t axis = 0; axis < axis_count; ++axis) {
    ASSIGN_OR_RETURN(const uint64_t length, reader.read<uint64_t>());
    lengths.push_back(length);
  }
  Field field;
  field.array.type = static_cast<data::ElementType>(type);
  ASSIGN_OR_RETURN(field.array.shape, data::Shape::make(lengths));
  ASSIGN_OR_RETURN(field.name, reader.take_text(name_bytes));
  return field;
}

}  // namespace

FieldsPacker::FieldsPacker(std::span<const PackedField> fields) {
  put(head_, static_cast<uint32_t>(fields.size()));
  for (const PackedField& field : fields) put_field(head_, field.name, field.type, field.shape);
  size_t at = aligned(head_.size());
  for (const PackedField& field : fields) {
    const size_t size = array_bytes(field.type, field.shape);
    at = field_begin(at, field.type, size);
    places_.push_back({.offset_bytes = at, .size_bytes = size});
    at += size;
  }
  size_bytes_ = at;
}

size_t FieldsPacker::head_bytes() const { return aligned(head_.size()); }

void FieldsPacker::write_head(MutableByteView sample) const {
  std::memcpy(sample.data(), head_.data(), head_.size());
  size_t at = head_.size();
  for (const data::Span& place : places_) {
    std::memset(sample.data() + at, 0, place.offset_bytes - at);
    at = place.offset_bytes + place.size_bytes;
  }
  std::memset(sample.data() + at, 0, size_bytes_ - at);
}

MutableByteView FieldsPacker::field(MutableByteView sample, size_t index) const {
  return sample.subspan(places_[index].offset_bytes, places_[index].size_bytes);
}

ByteView pack_fields(std::span<const Field> fields, data::Buffer& room) {
  std::vector<PackedField> specs;
  for (const Field& field : fields) {
    specs.push_back({std::string(field.name), field.array.type, field.array.shape});
  }
  const FieldsPacker packer(specs);
  const MutableByteView sample = room.room(packer.size_bytes());
  packer.write_head(sample);
  for (size_t i = 0; i < fields.size(); ++i) {
    const MutableByteView place = packer.field(sample, i);
    if (!place.empty()) std::memcpy(place.data(), fields[i].array.bytes.data(), place.size());
  }
  return sample.first(packer.size_bytes());
}

Status split_packed(ByteView sample, SampleFields& fields) {
  if (fields.repeat(sample)) return {};
  fields.clear();
  ByteReader reader(sample);
  ASSIGN_OR_RETURN(const uint32_t count, reader.read<uint32_t>());
  std::vector<Field> found;
  for (uint32_t i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(const Field field, read_field(reader));
    found.push_back(field);
  }
  const ByteView head = sample.first(reader.position());
  size_t at = aligned(head.size());
  for (Field& field : found) {
    const uint64_t elements = field.array.shape.element_count();
    const size_t width = data::element_bytes(field.array.type);
    at = field_begin(at, field.array.type, elements * width);
    if (at > sample.size() || elements > (sample.size() - at) / width) {
      return fail(Errc::kCorrupt, "the packed field '{}' of {} is longer than its sample",
                  field.name, field.array.shape.text());
    }
    field.array.bytes = sample.subspan(at, elements * width);
    fields.add(field);
    at += elements * width;
  }
  fields.remember(sample, head.size());
  return {};
}

}  // namespace millrace::format
