#include <cmath>
#include <cstring>

#include "base/text/json.h"
#include "base/text/json_writer.h"
#include "base/text/text.h"
#include "format/text/json_samples.h"
#include "format/text/number_text.h"

namespace millrace::format {
namespace {

using data::ElementType;
using Kind = Node::Kind;

bool is_integer(const Node& node) {
  return node.text().find_first_of(".eE") == std::string::npos &&
         parse_number<int64_t>(node.text()).has_value();
}

// What the numbers of a list, or one number, have in common.
struct Numbers {
  bool are_numbers = true;  // or null
  bool are_integers = true;
  bool are_bools = true;
  uint64_t count = 0;

  void see(const Node& node) {
    ++count;
    const Kind kind = node.kind();
    are_bools = are_bools && kind == Kind::kBool;
    are_numbers = are_numbers && (kind == Kind::kNumber || kind == Kind::kNull);
    are_integers = are_integers && kind == Kind::kNumber && is_integer(node);
  }

  bool is_array() const { return are_numbers || are_bools; }
  ElementType type(ElementType float_type) const {
    if (count == 0) return float_type;
    return are_bools ? ElementType::kBool : are_integers ? ElementType::kI64 : float_type;
  }
};

// Looks at lists of equal length within lists. False if they differ, or if there is anything else
// than numbers in them.
bool see_list(const Node& list, size_t axis, std::vector<uint64_t>& lengths, Numbers& numbers) {
  if (axis == data::Shape::kMaxAxes) return false;
  if (axis == lengths.size()) {
    lengths.push_back(list.items().size());
  } else if (lengths[axis] != list.items().size()) {
    return false;
  }
  const bool has_lists = !list.items().empty() && list.items()[0].kind() == Kind::kList;
  // A list of numbers next to a list of lists.
  if (!has_lists && axis + 1 < lengths.size()) return false;
  for (const Node& item : list.items()) {
    if (has_lists) {
      if (item.kind() != Kind::kList || !see_list(item, axis + 1, lengths, numbers)) return false;
    } else {
      numbers.see(item);
    }
  }
  return numbers.is_array();
}

class JsonFields {
 public:
  JsonFields(ElementType float_type, SampleFields& fields)
      : float_type_(float_type), fields_(fields) {}

  // `name` is empty for the sample itself.
  Status add(const std::string& name, const Node& node) {
    switch (node.kind()) {
      case Kind::kMap:
        for (const auto& [key, member] : node.members()) {
          RETURN_IF_ERROR(add(name.empty() ? key : fmt::format("{}.{}", name, key), member));
        }
        return {};
      case Kind::kList:
        return add_list(name, node);
      case Kind::kNull:
        return {};
      case Kind::kString:
      case Kind::kPlain:
        return add_text(name, node.text());
      case Kind::kBool:
      case Kind::kNumber: {
        Numbers numbers;
        numbers.see(node);
        return add_array(name, node, {}, numbers);
      }
    }
    return {};
  }

 private:
  std::string_view kept(const std::string& name) {
    return fields_.keep(name.empty() ? "data" : name);
  }

  Status add_text(const std::string& name, const std::string& text) {
    Field field = bytes_field(kept(name), bytes_of(fields_.keep(text)));
    field.is_text = true;
    fields_.add(field);
    return {};
  }

  Status add_list(const std::string& name, const Node& list) {
    std::vector<uint64_t> lengths;
    Numbers numbers;
    if (see_list(list, 0, lengths, numbers)) {
      ASSIGN_OR_RETURN(const data::Shape shape, data::Shape::make(lengths));
      return add_array(name, list, shape, numbers);
    }
    for (size_t i = 0; i < list.items().size(); ++i) {
      const std::string number = std::to_string(i);
      RETURN_IF_ERROR(
          add(name.empty() ? number : fmt::format("{}.{}", name, number), list.items()[i]));
    }
    return {};
  }

  Status add_array(const std::string& name, const Node& node, const data::Shape& shape,
                   const Numbers& numbers) {
    const ElementType type = numbers.type(float_type_);
    const MutableByteView room = fields_.room(numbers.count * data::element_bytes(type));
    std::byte* out = room.data();
    put(node, type, out);
    fields_.add({.name = kept(name),
                 .array = {.type = type, .shape = shape, .bytes = room},
                 .is_number_text = true});
    return {};
  }

  static void put(const Node& node, ElementType type, std::byte*& out) {
    if (node.kind() == Kind::kList) {
      for (const Node& item : node.items()) put(item, type, out);
      return;
    }
    switch (type) {
      case ElementType::kBool:
        *out++ = static_cast<std::byte>(node.text() == "true");
        return;
      case ElementType::kI64:
        return put_value(parse_number<int64_t>(node.text()).value_or(0), out);
      case ElementType::kF64:
        return put_value(parse_number<double>(node.text()).value_or(std::nan("")), out);
      default:
        return put_value(parse_number<float>(node.text()).value_or(std::nanf("")), out);
    }
  }

  template <typename T>
  static void put_value(T value, std::byte*& out) {
    std::memcpy(out, &value, sizeof(value));
    out += sizeof(value);
  }

  ElementType float_type_;
  SampleFields& fields_;
};

std::string json_string(std::string_view text) {
  JsonWriter writer;
  writer.value(text);
  std::string out = std::move(writer).finish();
  out.pop_back();  // the line break
  return out;
}

// Appends nested lists: the elements from `index` on.
Status append_array(std::string& out, const data::ArrayView& array, size_t axis, size_t& index) {
  const auto lengths = array.shape.lengths();
  if (axis < lengths.size()) {
    out += '[';
    if (axis + 1 == lengths.size() && array.type == ElementType::kU8) {
      const auto count = static_cast<size_t>(lengths[axis]);
      RETURN_IF_ERROR(append_numbers(out, array, index, count, ", "));
      index += count;
      out += ']';
      return {};
    }
    for (uint64_t i = 0; i < lengths[axis]; ++i) {
      if (i > 0) out += ", ";
      RETURN_IF_ERROR(append_array(out, array, axis + 1, index));
    }
    out += ']';
    return {};
  }
  if (array.type == ElementType::kBool) {
    out += array.bytes[index++] == std::byte{0} ? "false" : "true";
    return {};
  }
  const size_t before = out.size();
  RETURN_IF_ERROR(append_number(out, array, index++));
  if (out.find_first_of("ni", before) == std::string::npos) return {};
  return fail(Errc::kInvalidArgument, "JSON has no number for {}", out.substr(before));
}

Status append_value(std::string& out, const Field& field, std::span<const Field> all) {
  if (!is_text_field(field, all)) {
    size_t index = 0;
    return append_array(out, field.array, 0, index);
  }
  const std::string_view text = text_of(field.array.bytes);
  if (!is_utf8(text)) {
    return fail(Errc::kInvalidArgument,
                "its bytes are not UTF-8 text, which is all that JSON holds; use a format for "
                "bytes such as tar or indexed");
  }
  out += json_string(text);
  return {};
}

}  // namespace

Status parse_json_sample(std::string_view text, ElementType float_type, SampleFields& fields) {
  fields.clear();
  ASSIGN_OR_RETURN(const Document document, parse_json(text, "json"));
  return JsonFields(float_type, fields).add("", document.root);
}

Result<std::string> make_json_sample(std::span<const Field> fields, std::string room) {
  std::string out = std::move(room);
  out = "{";
  for (const Field& field : fields) {
    if (out.size() > 1) out += ", ";
    out += json_string(field.name);
    out += ": ";
    RETURN_IF_ERROR(
        append_value(out, field, fields).within(fmt::format("'{}'", printable(field.name))));
  }
  out += '}';
  return out;
}

}  // namespace millrace::format
