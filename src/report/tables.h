// Tables of a profile by one thing after another: functions, files, ranks, epochs, ...
//
// One description of each table; text, CSV and JSON are made of it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "analyze/profile.h"
#include "base/result.h"
#include "base/terminal.h"

namespace millrace::report {

// What --by takes.
std::vector<std::string> table_names();

// How a number is shown to people; CSV and JSON have it as it is.
enum class Unit { kText, kCount, kBytes, kDuration, kShare, kRate };

struct TableColumn {
  std::string title;    // as in CSV: "read_ns"
  std::string heading;  // for people: "read"
  Unit unit{};
};

struct TableCell {
  std::string text;   // Unit::kText
  double number = 0;  // all others
};

struct ProfileTable {
  std::string name;
  std::vector<TableColumn> columns;
  std::vector<std::vector<TableCell>> rows;
  size_t cut = 0;  // rows the profile itself does not hold
};

// REQUIRES: the name is one of table_names().
ProfileTable table_by(const analyze::Profile& profile, std::string_view name);

// At most `rows` of them.
std::string table_text(const ProfileTable& table, size_t rows, const Terminal& terminal);
std::string table_csv(const ProfileTable& table);
std::string table_json(const ProfileTable& table);

}  // namespace millrace::report
