// Table and bar: figures in columns, and shares one can see, on a terminal of any width.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/terminal.h"

namespace millrace {

class Table {
 public:
  enum class Align { kLeft, kRight };

  struct Column {
    std::string title;
    Align align = Align::kLeft;
    bool may_shrink = false;  // cut with "..." where the table is wider than the terminal
  };

  struct Cell {
    Cell(std::string plain) : text(std::move(plain)) {}
    Cell(const char* plain) : text(plain) {}
    Cell(std::string styled_text, Style text_style)
        : text(std::move(styled_text)), style(text_style) {}

    std::string text;
    Style style = Style::kPlain;
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // REQUIRES: a cell a column.
  void add_row(std::vector<Cell> cells);

  // Lines of at most `terminal.columns` where the columns that may shrink allow it, each ended by a
  // newline, with nothing at their ends. Titles come first unless all are empty.
  std::string render(const Terminal& terminal) const;

 private:
  std::vector<size_t> widths(size_t columns) const;
  std::string line(const std::vector<Cell>& cells, const std::vector<size_t>& widths,
                   bool color) const;

  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

// A horizontal bar for a share of 0 to 1 (others are clipped), padded to `columns`; in eighths of a
// column where the terminal has UTF-8. A share above nothing always shows.
std::string bar(double share, size_t columns, bool utf8);

}  // namespace millrace
