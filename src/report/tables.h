// Tables of a profile: by function, file, rank, epoch, ...
//
// CSV and JSON have all fields of the structs of the profile as columns; text shows a selection.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analyze/profile/profile.h"
#include "base/result.h"
#include "base/system/terminal.h"

namespace millrace::report {

// The values of --by.
std::vector<std::string> table_names();

using analyze::Unit;

struct TableColumn {
  std::string title;  // as in CSV, JSON and the profile: "read_ns"
  Unit unit{};        // how text output formats a number; CSV and JSON have the plain number
};

// A column that text output shows.
struct TableHeading {
  std::string_view column;  // its title
  std::string_view text;    // "reading"
};

struct TableCell {
  std::string text;   // Unit::kText
  double number = 0;  // all others
};

struct ProfileTable {
  std::string name;
  std::vector<TableColumn> columns;
  std::span<const TableHeading> headings;  // in the order of text output
  std::vector<std::vector<TableCell>> rows;
  size_t cut = 0;  // rows that the profile itself left out
};

// REQUIRES: the name is one of table_names().
ProfileTable table_by(const analyze::Profile& profile, std::string_view name);

// At most `rows` rows.
std::string table_text(const ProfileTable& table, size_t rows, const Terminal& terminal);
std::string table_csv(const ProfileTable& table);
std::string table_json(const ProfileTable& table);

}  // namespace millrace::report
