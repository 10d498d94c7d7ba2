#include "base/text/table.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "base/text/text.h"

namespace millrace {
namespace {

constexpr size_t kGap = 2;        // spaces between columns
constexpr size_t kShrinkMin = 8;  // a narrower column is useless

std::string padded(std::string_view text, size_t width, Table::Align align) {
  const size_t taken = display_width(text);
  const std::string spaces(taken < width ? width - taken : 0, ' ');
  return align == Table::Align::kLeft ? std::string(text) + spaces : spaces + std::string(text);
}

}  // namespace

void Table::add_row(std::vector<Cell> cells) {
  assert(cells.size() == columns_.size());
  rows_.push_back(std::move(cells));
}

std::vector<size_t> Table::widths(size_t columns) const {
  std::vector<size_t> widths;
  size_t total = 0;
  for (size_t i = 0; i < columns_.size(); ++i) {
    size_t width = display_width(columns_[i].title);
    for (const auto& row : rows_) width = std::max(width, display_width(row[i].text));
    widths.push_back(width);
    total += width + (i == 0 ? 0 : kGap);
  }
  // Shrink the widest column first, so that narrow ones stay readable.
  while (total > columns) {
    size_t widest = columns_.size();
    for (size_t i = 0; i < columns_.size(); ++i) {
      const bool can = columns_[i].may_shrink && widths[i] > kShrinkMin;
      if (can && (widest == columns_.size() || widths[i] > widths[widest])) widest = i;
    }
    if (widest == columns_.size()) break;
    --widths[widest];
    --total;
  }
  return widths;
}

std::string Table::line(const std::vector<Cell>& cells, const std::vector<size_t>& widths,
                        bool color) const {
  std::string out;
  size_t pending_spaces = 0;  // delayed, so that no line ends with spaces
  for (size_t i = 0; i < cells.size(); ++i) {
    const std::string text =
        padded(shorten(cells[i].text, widths[i]), widths[i], columns_[i].align);
    const size_t begin = std::min(text.find_first_not_of(' '), text.size());
    const size_t end = text.find_last_not_of(' ') + 1;  // 0 if all are spaces
    pending_spaces += begin;
    if (begin < text.size()) {
      out.append(pending_spaces, ' ');
      out += styled(std::string_view(text).substr(begin, end - begin), cells[i].style, color);
      pending_spaces = text.size() - end;
    }
    pending_spaces += kGap;
  }
  return out + '\n';
}

std::string Table::render(const Terminal& terminal) const {
  const std::vector<size_t> column_widths = widths(terminal.columns);
  std::string out;
  const bool titled = std::any_of(columns_.begin(), columns_.end(),
                                  [](const Column& column) { return !column.title.empty(); });
  if (titled) {
    std::vector<Cell> titles;
    for (const Column& column : columns_) titles.emplace_back(column.title, Style::kBold);
    out += line(titles, column_widths, terminal.color);
  }
  for (const auto& row : rows_) out += line(row, column_widths, terminal.color);
  return out;
}

std::string bar(double share, size_t columns, bool utf8) {
  constexpr std::string_view kEighths[] = {"",       "\u258f", "\u258e", "\u258d",
                                           "\u258c", "\u258b", "\u258a", "\u2589"};
  const double clipped = std::isfinite(share) ? std::clamp(share, 0.0, 1.0) : 0.0;
  const size_t steps_per_column = utf8 ? 8 : 1;
  auto steps =
      static_cast<size_t>(std::lround(clipped * static_cast<double>(columns * steps_per_column)));
  if (clipped > 0 && steps == 0 && columns > 0) steps = 1;
  std::string out;
  const size_t full = steps / steps_per_column;
  for (size_t i = 0; i < full; ++i) out += utf8 ? "\u2588" : "#";
  const size_t part = steps % steps_per_column;
  out += kEighths[part];
  out.append(columns - full - (part > 0 ? 1 : 0), ' ');
  return out;
}

}  // namespace millrace
