// CsvScan: finds the rows of a csv file and what kinds of cells its columns have.
//
// The rules are those of RFC 4180 and of Python's csv module: a cell in quotes may contain the
// delimiter, line breaks and doubled quotes. Lines end in \n or \r\n; empty lines are not rows.
// Works on pieces of the file and keeps only the places of rows. One table lookup per byte.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "data/dataset.h"

namespace millrace::format {

// What a cell is. A column is the largest kind of its cells.
enum class CellKind : uint8_t {
  kNone,     // a column without cells
  kInteger,  // up to 18 digits
  kFloat,    // any other number, nan or inf, and an empty cell
  kText,     // anything else, and everything in quotes
};

class CsvScan {
 public:
  explicit CsvScan(char delimiter);

  // The next piece of the file.
  Status add(std::string_view piece);
  // The file ends here; the last row may lack its line break.
  Status finish();

  const std::vector<data::Span>& rows() const { return rows_; }
  std::vector<data::Span> take_rows() { return std::move(rows_); }
  // The kinds of the cells of the first row, which may be a header, and of all rows after it.
  const std::vector<CellKind>& first_kinds() const { return first_kinds_; }
  const std::vector<CellKind>& kinds() const { return kinds_; }

 private:
  using Table = std::array<std::array<uint8_t, 256>, 24>;

  static Table make_table(char delimiter);
  Status end_cell(uint64_t end);
  Status end_row(uint64_t end);
  std::string place() const;

  const Table table_;
  std::vector<data::Span> rows_;
  std::vector<CellKind> first_kinds_;
  std::vector<CellKind> kinds_;
  uint64_t at_ = 0;  // of the next piece
  uint64_t row_begin_ = 0;
  uint64_t cell_begin_ = 0;
  size_t cell_count_ = 0;  // of this row
  uint8_t state_ = 0;
  bool after_return_ = false;  // the last byte of the last piece was \r
};

// Reads the cells of one row, which has no line break at its end.
class CsvCells {
 public:
  struct Cell {
    std::string_view text;  // without the quotes around it
    bool is_quoted = false;
    bool has_doubled_quotes = false;
  };

  CsvCells(std::string_view row, char delimiter) : rest_(row), delimiter_(delimiter) {}

  bool at_end() const { return at_end_; }
  // REQUIRES: !at_end(). Fails if a quote is not closed, or text follows a closing quote.
  Result<Cell> next();

  // The text of a cell with doubled quotes.
  static std::string unquoted(std::string_view text);

 private:
  std::string_view rest_;
  char delimiter_;
  bool at_end_ = false;
};

}  // namespace millrace::format
