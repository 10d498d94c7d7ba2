// csv and tsv: a table as text. Each row is a sample.
//
// index() reads all files once, to find the rows and what their columns hold. All files must have
// the same columns, except that rows of numbers without a header may be longer in one file than in
// another. If the first row names the columns, every column is a field with its name: one
// int64, one float of FormatOptions::text_float, or text (uint8). Without a header, a row of
// numbers is one field "data" with one axis; a row that has text too has the fields "0", "1", ...
// docs/formats/csv.md has the rules.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "format/format.h"
#include "format/text/csv_scan.h"

namespace millrace::format {

struct CsvColumns {
  bool has_header = false;
  std::vector<std::string> names;  // "0", "1", ... without a header
  std::vector<CellKind> kinds;
  // Rows of numbers have another length in another file. `names` and `kinds` stand for any cell.
  bool are_ragged = false;

  // Whether a row is one array "data".
  bool is_array() const;
  bool operator==(const CsvColumns&) const = default;
};

std::unique_ptr<SampleWriter> make_csv_writer(std::unique_ptr<io::Writer> writer, char delimiter,
                                              HeaderRow header);

}  // namespace millrace::format
