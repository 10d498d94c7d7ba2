// tf.train.Example: field 1 is Features. Its field 1 repeats entries of a key (1) and a Feature
// (2). A Feature has a list of bytes (1), floats (2) or integers (3), each with its values in
// field 1.
#include <cstring>

#include "base/bytes.h"
#include "base/text/text.h"
#include "format/records/tfrecord.h"

namespace millrace::format {
namespace {

using data::ElementType;

enum class Wire : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

enum class List : uint32_t { kBytes = 1, kFloats = 2, kIntegers = 3 };

struct Item {
  uint32_t number = 0;
  Wire wire = Wire::kVarint;
  uint64_t value = 0;  // for kVarint
  ByteView bytes;      // for the others
};

Result<Item> next_item(ByteReader& reader) {
  ASSIGN_OR_RETURN(const uint64_t key, reader.read_varint());
  Item item{.number = static_cast<uint32_t>(key >> 3), .wire = static_cast<Wire>(key & 7)};
  if (key >> 3 == 0 || key >> 3 > 0x1fffffff) {
    return fail(Errc::kCorrupt, "the Example has a field numbered {}", key >> 3);
  }
  switch (item.wire) {
    case Wire::kVarint: {
      ASSIGN_OR_RETURN(item.value, reader.read_varint());
      return item;
    }
    case Wire::kFixed64: {
      ASSIGN_OR_RETURN(item.bytes, reader.take(8));
      return item;
    }
    case Wire::kFixed32: {
      ASSIGN_OR_RETURN(item.bytes, reader.take(4));
      return item;
    }
    case Wire::kBytes: {
      ASSIGN_OR_RETURN(const uint64_t length, reader.read_varint());
      if (length > reader.remaining()) {
        return fail(Errc::kCorrupt, "field {} of the Example claims {} bytes, but {} are left",
                    item.number, length, reader.remaining());
      }
      ASSIGN_OR_RETURN(item.bytes, reader.take(static_cast<size_t>(length)));
      return item;
    }
  }
  return fail(Errc::kCorrupt, "the Example has a field of wire type {}", key & 7);
}

// Calls `visit` for each item of `message` with field number `number`.
template <typename Visit>
Status for_each(ByteView message, uint32_t number, Visit&& visit) {
  ByteReader reader(message);
  while (!reader.at_end()) {
    ASSIGN_OR_RETURN(const Item item, next_item(reader));
    if (item.number == number) RETURN_IF_ERROR(visit(item));
  }
  return {};
}

Status wrong_wire(std::string_view name) {
  return fail(Errc::kCorrupt, "feature '{}' is not encoded as a list of its type", printable(name));
}

void add_array(SampleFields& fields, std::string_view name, ElementType type, ByteView bytes) {
  fields.add(
      {.name = name,
       .array = {
           .type = type, .shape = {bytes.size() / data::element_bytes(type)}, .bytes = bytes}});
}

Status add_bytes(ByteView list, std::string_view name, SampleFields& fields) {
  size_t count = 0;
  RETURN_IF_ERROR(for_each(list, 1, [&](const Item& item) {
    ++count;
    return item.wire == Wire::kBytes ? Status() : wrong_wire(name);
  }));
  if (count == 0) fields.add(bytes_field(name, {}));
  size_t index = 0;
  return for_each(list, 1, [&](const Item& item) -> Status {
    fields.add(bytes_field(count == 1 ? name : fields.keep(fmt::format("{}/{}", name, index++)),
                           item.bytes));
    return {};
  });
}

Status add_floats(ByteView list, std::string_view name, SampleFields& fields) {
  size_t size_bytes = 0;
  size_t pieces = 0;
  ByteView only;
  RETURN_IF_ERROR(for_each(list, 1, [&](const Item& item) {
    const bool fits =
        item.wire == Wire::kFixed32 || (item.wire == Wire::kBytes && item.bytes.size() % 4 == 0);
    ++pieces;
    size_bytes += item.bytes.size();
    only = item.bytes;
    return fits ? Status() : wrong_wire(name);
  }));
  if (pieces > 1) {
    const MutableByteView all = fields.room(size_bytes);
    size_t at = 0;
    RETURN_IF_ERROR(for_each(list, 1, [&](const Item& item) -> Status {
      if (!item.bytes.empty()) std::memcpy(all.data() + at, item.bytes.data(), item.bytes.size());
      at += item.bytes.size();
      return {};
    }));
    only = all;
  }
  add_array(fields, name, ElementType::kF32, only);
  return {};
}

Status add_integers(ByteView list, std::string_view name, SampleFields& fields) {
  // Each number takes at least one byte, so there are at most list.size() of them.
  const MutableByteView all = fields.room(list.size() * sizeof(uint64_t));
  size_t count = 0;
  const auto put = [&](uint64_t value) {
    std::memcpy(all.data() + count++ * sizeof(value), &value, sizeof(value));
  };
  RETURN_IF_ERROR(for_each(list, 1, [&](const Item& item) -> Status {
    if (item.wire == Wire::kVarint) {
      put(item.value);
      return {};
    }
    if (item.wire != Wire::kBytes) return wrong_wire(name);
    ByteReader packed(item.bytes);
    while (!packed.at_end()) {
      ASSIGN_OR_RETURN(const uint64_t value, packed.read_varint());
      put(value);
    }
    return {};
  }));
  add_array(fields, name, ElementType::kI64, all.first(count * sizeof(uint64_t)));
  return {};
}

Status add_feature(ByteView feature, std::string_view name, SampleFields& fields) {
  Item list;
  ByteReader reader(feature);
  while (!reader.at_end()) {
    ASSIGN_OR_RETURN(const Item item, next_item(reader));
    if (item.number >= 1 && item.number <= 3) list = item;
  }
  if (list.number == 0) return {};  // an empty feature
  if (list.wire != Wire::kBytes) return wrong_wire(name);
  switch (static_cast<List>(list.number)) {
    case List::kBytes:
      return add_bytes(list.bytes, name, fields);
    case List::kFloats:
      return add_floats(list.bytes, name, fields);
    case List::kIntegers:
      break;
  }
  return add_integers(list.bytes, name, fields);
}

Status add_entry(const Item& entry, SampleFields& fields) {
  if (entry.wire != Wire::kBytes) return wrong_wire("");
  std::string_view name;
  ByteView feature;
  ByteReader reader(entry.bytes);
  while (!reader.at_end()) {
    ASSIGN_OR_RETURN(const Item item, next_item(reader));
    if (item.number > 2) continue;
    if (item.wire != Wire::kBytes) return wrong_wire("");
    if (item.number == 1) name = text_of(item.bytes);
    if (item.number == 2) feature = item.bytes;
  }
  return add_feature(feature, name, fields);
}

void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

void put_message(std::string& out, uint32_t number, std::string_view bytes) {
  put_varint(out, number << 3 | static_cast<uint32_t>(Wire::kBytes));
  put_varint(out, bytes.size());
  out += bytes;
}

template <typename T>
std::string packed_integers(ByteView bytes) {
  std::string packed;
  for (size_t at = 0; at + sizeof(T) <= bytes.size(); at += sizeof(T)) {
    T value;
    std::memcpy(&value, bytes.data() + at, sizeof(T));
    put_varint(packed, static_cast<uint64_t>(static_cast<int64_t>(value)));
  }
  return packed;
}

// A Feature with the list for this field.
Result<std::string> feature_of(const Field& field) {
  std::string list;
  std::string feature;
  switch (field.array.type) {
    case ElementType::kU8:
      put_message(list, 1, text_of(field.array.bytes));
      put_message(feature, static_cast<uint32_t>(List::kBytes), list);
      return feature;
    case ElementType::kF32:
      put_message(list, 1, text_of(field.array.bytes));
      put_message(feature, static_cast<uint32_t>(List::kFloats), list);
      return feature;
    case ElementType::kI32:
    case ElementType::kI64:
      put_message(list, 1,
                  field.array.type == ElementType::kI32
                      ? packed_integers<int32_t>(field.array.bytes)
                      : packed_integers<int64_t>(field.array.bytes));
      put_message(feature, static_cast<uint32_t>(List::kIntegers), list);
      return feature;
    default:
      return fail(Errc::kUnsupported,
                  "'{}' is {}, which an Example cannot hold; use uint8 (bytes), float32 or int64",
                  printable(field.name), data::element_name(field.array.type));
  }
}

}  // namespace

Status parse_example(ByteView payload, SampleFields& fields) {
  return for_each(payload, 1, [&](const Item& features) {
    if (features.wire != Wire::kBytes) return wrong_wire("");
    return for_each(features.bytes, 1, [&](const Item& entry) { return add_entry(entry, fields); });
  });
}

Result<std::string> make_example(std::span<const Field> fields) {
  std::string features;
  for (const Field& field : fields) {
    ASSIGN_OR_RETURN(const std::string feature, feature_of(field));
    std::string entry;
    put_message(entry, 1, field.name);
    put_message(entry, 2, feature);
    put_message(features, 1, entry);
  }
  std::string example;
  put_message(example, 1, features);
  return example;
}

}  // namespace millrace::format
