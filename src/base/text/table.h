// Table and bar: columns of text and bar charts for a terminal of any width.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/system/terminal.h"

namespace millrace {

class Table {
 public:
  enum class Align { kLeft, kRight };

  struct Column {
    std::string title;
    Align align = Align::kLeft;
    bool may_shrink = false;  // shortened with "..." if the table is wider than the terminal
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

  // REQUIRES: one cell per column.
  void add_row(std::vector<Cell> cells);

  // Returns lines of at most `terminal.columns`, if the columns that may shrink allow it. Each line
  // has a newline and no trailing spaces. Titles come first unless all are empty.
  std::string render(const Terminal& terminal) const;

 private:
  std::vector<size_t> widths(size_t columns) const;
  std::string line(const std::vector<Cell>& cells, const std::vector<size_t>& widths,
                   bool color) const;

  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

// A horizontal bar for a share from 0 to 1 (others are clipped), padded to `columns`. With `utf8`,
// its resolution is an eighth of a column. A share above 0 is always visible.
std::string bar(double share, size_t columns, bool utf8);

}  // namespace millrace
