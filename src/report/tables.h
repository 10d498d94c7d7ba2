// Tables of a profile: by function, file, rank, epoch, ...
//
// Each table is described once; text, CSV and JSON are generated from it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "analyze/profile/profile.h"
#include "base/result.h"
#include "base/terminal.h"

namespace millrace::report {

// The values of --by.
std::vector<std::string> table_names();

// How text output formats a number; CSV and JSON have the plain number.
enum class Unit { kText, kCount, kBytes, kDuration, kShare, kRate };

struct TableColumn {
  std::string title;    // as in CSV: "read_ns"
  std::string heading;  // in text: "read"; empty: not shown
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
  size_t cut = 0;  // rows that the profile itself left out
};

// REQUIRES: the name is one of table_names().
ProfileTable table_by(const analyze::Profile& profile, std::string_view name);

// At most `rows` rows.
std::string table_text(const ProfileTable& table, size_t rows, const Terminal& terminal);
std::string table_csv(const ProfileTable& table);
std::string table_json(const ProfileTable& table);

}  // namespace millrace::report
