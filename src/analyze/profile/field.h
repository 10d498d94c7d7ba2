// Field: what is known about one field of a profile: name, unit, meaning.
//
// visit_columns() visits the fields of a struct and of the structs inside it as the columns of a
// table. CSV tables and SQL both use it, so their names are the same.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "analyze/vocabulary.h"
#include "base/numbers/log_histogram.h"

namespace millrace::analyze {

// The value of an optional field that is missing.
inline constexpr uint64_t kMissing = ~uint64_t{0};

enum class Unit { kNone, kText, kCount, kBytes, kNs, kShare, kBytesPerSecond };

struct Field {
  std::string_view name;
  Unit unit{};
  bool optional = false;  // kMissing is null in JSON
  bool inlined = false;   // a struct whose fields are columns without a prefix
  std::string_view meaning;
};

// T is Struct or const Struct.
template <typename T, typename Struct>
concept Of = std::same_as<std::remove_const_t<T>, Struct>;

// Whether values of a struct are many and small, so that JSON writes each on one line.
template <typename T>
inline constexpr bool kOnOneLine = false;

inline constexpr std::array<std::string_view, 14> kCallKindNames = {
    "other", "open",     "close",     "read", "write",     "transfer", "seek",
    "sync",  "metadata", "directory", "map",  "duplicate", "process",  "region"};

// The names of enum values, by value.
constexpr const auto& names_of(Layer) { return kLayerNames; }
constexpr const auto& names_of(Role) { return kRoleNames; }
constexpr const auto& names_of(FileKind) { return kFileKindNames; }
constexpr const auto& names_of(ReadOrder) { return kReadOrderNames; }
constexpr const auto& names_of(WaitBasis) { return kWaitBasisNames; }
constexpr const auto& names_of(ComputeBasis) { return kComputeBasisNames; }
constexpr const auto& names_of(wire::CallKind) { return kCallKindNames; }

template <typename T>
  requires std::is_enum_v<T>
constexpr std::string_view name_of(T value) {
  return names_of(value)[static_cast<size_t>(value)];
}

template <typename T>
constexpr bool is_missing(const Field& field, const T& value) {
  if constexpr (std::same_as<T, uint64_t>) return field.optional && value == kMissing;
  return false;
}

template <typename T>
inline constexpr bool kIsList = std::same_as<T, LogHistogram>;
template <typename T>
inline constexpr bool kIsList<std::vector<T>> = true;

// Calls visit(prefix, field, value) for each text, number and enum of a struct and of the structs
// in it, one level down. The prefix is the name of the member: "read" for the field `count` of
// FileStats::read, whose column is `read_count`; empty for fields of the struct itself and of
// inlined members. A field without a unit has that of the member. Lists have no columns, nor has
// the name of an inlined struct.
template <typename Visit>
class ColumnVisitor {
 public:
  ColumnVisitor(Visit& visit, const Field& in) : visit_(visit), in_(in) {}

  template <typename T>
  void operator()(const Field& field, const T& value) {
    if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T> || std::same_as<T, std::string>) {
      if (in_.inlined && field.name == "name") return;
      Field column = field;
      if (field.unit == Unit::kNone) column.unit = in_.unit;
      visit_(in_.inlined ? std::string_view() : in_.name, column, value);
    } else if constexpr (!kIsList<T>) {
      ColumnVisitor inner(visit_, field);
      visit_fields(inner, value);
    }
  }

 private:
  Visit& visit_;
  Field in_;  // the member that is visited
};

// `in` is the member that `value` is the value of, if it is one.
void visit_columns(auto& visit, const auto& value, const Field& in = {}) {
  ColumnVisitor visitor(visit, in);
  visit_fields(visitor, value);
}

inline std::string column_name(std::string_view prefix, const Field& field) {
  return prefix.empty() ? std::string(field.name)
                        : std::string(prefix) + "_" + std::string(field.name);
}

}  // namespace millrace::analyze
