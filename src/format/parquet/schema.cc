#include "format/parquet/schema.h"

#include "base/text/text.h"

namespace millrace::format::parquet {
namespace {

using data::ElementType;

constexpr int32_t kFixedBytesMax = 1 << 30;
// Far above what programs write; a bound for damaged files.
constexpr size_t kNestingMax = 64;

struct TypeInMemory {
  ElementType type = ElementType::kU8;
  size_t file_bytes = 0;
  size_t item_bytes = 0;
};

ElementType integer_type(Meaning meaning, bool is_wide) {
  switch (meaning) {
    case Meaning::kInt8:
      return ElementType::kI8;
    case Meaning::kInt16:
      return ElementType::kI16;
    case Meaning::kUint8:
      return ElementType::kU8;
    case Meaning::kUint16:
      return ElementType::kU16;
    case Meaning::kUint32:
      return is_wide ? ElementType::kI64 : ElementType::kU32;
    case Meaning::kUint64:
      return is_wide ? ElementType::kU64 : ElementType::kI32;
    default:
      return is_wide ? ElementType::kI64 : ElementType::kI32;
  }
}

TypeInMemory of_element(ElementType type, size_t file_bytes) {
  return {.type = type, .file_bytes = file_bytes, .item_bytes = data::element_bytes(type)};
}

Result<TypeInMemory> type_in_memory(const SchemaElement& leaf) {
  switch (*leaf.type) {
    case PhysicalType::kBoolean:
      return of_element(ElementType::kBool, 1);
    case PhysicalType::kInt32:
      return of_element(integer_type(leaf.meaning, false), 4);
    case PhysicalType::kInt64:
      return of_element(integer_type(leaf.meaning, true), 8);
    case PhysicalType::kFloat:
      return of_element(ElementType::kF32, 4);
    case PhysicalType::kDouble:
      return of_element(ElementType::kF64, 8);
    case PhysicalType::kByteArray:
      return TypeInMemory{};
    case PhysicalType::kFixedLenByteArray: {
      if (leaf.type_length <= 0 || leaf.type_length > kFixedBytesMax) {
        return fail(Errc::kCorrupt, "column '{}' has values of {} bytes", printable(leaf.name),
                    leaf.type_length);
      }
      const auto width = static_cast<size_t>(leaf.type_length);
      if (leaf.meaning == Meaning::kFloat16 && width == 2) return of_element(ElementType::kF16, 2);
      return TypeInMemory{.file_bytes = width, .item_bytes = width};
    }
    case PhysicalType::kInt96:
      return fail(Errc::kUnsupported,
                  "its type is INT96, an obsolete timestamp; write it as INT64");
  }
  return fail(Errc::kUnsupported, "its physical type {} is unknown",
              static_cast<int32_t>(*leaf.type));
}

// The nodes from the root (without it) to a leaf.
using SchemaPath = std::vector<const SchemaElement*>;

std::optional<std::string> refusal_of(const SchemaPath& path, size_t repeated_count) {
  if (repeated_count == 0) return std::nullopt;
  for (const SchemaElement* node : path) {
    if (node->meaning == Meaning::kMap) return "it is part of a map";
  }
  if (repeated_count > 1) return "it is a list of lists";
  if (path.size() == 1) return std::nullopt;  // a repeated value, without a group around it
  const bool is_list = path[0]->meaning == Meaning::kList && path.size() <= 3 &&
                       path[1]->repetition == Repetition::kRepeated &&
                       (path.size() == 2 || path[1]->child_count == 1);
  if (!is_list) return "it is part of a list of structs";
  return std::nullopt;
}

std::string name_of(const SchemaPath& path, bool is_list) {
  std::string name = path[0]->name;
  for (size_t i = 1; i < path.size() && !is_list; ++i) name += '.' + path[i]->name;
  return name;
}

Result<Column> column_of(const SchemaPath& path, size_t leaf) {
  Column column;
  column.leaf = leaf;
  column.physical = *path.back()->type;
  size_t repeated_count = 0;
  for (const SchemaElement* node : path) {
    if (node->repetition != Repetition::kRequired) ++column.definition_max;
    if (node->repetition != Repetition::kRepeated) continue;
    ++repeated_count;
    column.repeated_at = column.definition_max;
  }
  column.repetition_max = static_cast<uint8_t>(repeated_count);
  column.refusal = refusal_of(path, repeated_count);
  column.is_list = repeated_count > 0;
  column.is_text = path.back()->meaning == Meaning::kText;
  column.name = name_of(path, column.is_list && !column.refusal);
  const auto type = type_in_memory(*path.back());
  if (!type.ok() && type.error().code() == Errc::kCorrupt) return type.error();
  if (!type.ok()) {
    column.refusal = type.error().message();
    return column;
  }
  column.type = type->type;
  column.file_bytes = type->file_bytes;
  column.item_bytes = type->item_bytes;
  if (column.is_list && column.is_bytes() && !column.refusal) {
    column.refusal = "it is a list of strings or byte arrays";
  }
  return column;
}

Status check_element(const SchemaElement& element) {
  const auto repetition = static_cast<int32_t>(element.repetition);
  if (repetition < 0 || repetition > 2 || element.child_count < 0 ||
      (!element.type && element.child_count == 0) || (element.type && element.child_count != 0)) {
    return fail(Errc::kCorrupt, "the schema's element '{}' is malformed", printable(element.name));
  }
  return {};
}

}  // namespace

bool Column::is_float() const {
  return type == ElementType::kF16 || type == ElementType::kF32 || type == ElementType::kF64;
}

Result<std::vector<Column>> columns_of(const std::vector<SchemaElement>& schema) {
  if (schema.empty() || schema[0].type) {
    return fail(Errc::kCorrupt, "the schema has no root");
  }
  std::vector<Column> columns;
  SchemaPath path;
  std::vector<int32_t> left = {schema[0].child_count};  // children to come, by depth
  for (size_t i = 1; i < schema.size(); ++i) {
    RETURN_IF_ERROR(check_element(schema[i]));
    while (!left.empty() && left.back() == 0) {
      left.pop_back();
      if (!path.empty()) path.pop_back();
    }
    if (left.empty() || path.size() >= kNestingMax) {
      return fail(Errc::kCorrupt, "the schema's {} elements do not form a tree", schema.size());
    }
    --left.back();
    path.push_back(&schema[i]);
    if (!schema[i].type) {
      left.push_back(schema[i].child_count);
      continue;
    }
    ASSIGN_OR_RETURN(Column column, column_of(path, columns.size()));
    columns.push_back(std::move(column));
    path.pop_back();
  }
  for (const int32_t missing : left) {
    if (missing != 0) return fail(Errc::kCorrupt, "the schema ends early");
  }
  return columns;
}

}  // namespace millrace::format::parquet
