#include "base/text/table.h"

#include <gtest/gtest.h>

#include "base/text/text.h"

namespace millrace {
namespace {

Table functions() {
  Table table({{.title = "call"},
               {.title = "count", .align = Table::Align::kRight},
               {.title = "file", .may_shrink = true}});
  table.add_row({"pread", "12,000", "train/part-00001-of-01024.tfrecord"});
  table.add_row({"open", "3", "train/a"});
  return table;
}

TEST(Table, AlignsItsColumns) {
  EXPECT_EQ(functions().render({}),
            "call    count  file\n"
            "pread  12,000  train/part-00001-of-01024.tfrecord\n"
            "open        3  train/a\n");
}

TEST(Table, FitsTheTerminalByShrinkingColumns) {
  const std::string text = functions().render({.columns = 30});
  EXPECT_EQ(text,
            "call    count  file\n"
            "pread  12,000  train/part-0...\n"
            "open        3  train/a\n");
}

TEST(Table, CountsColumnsNotBytes) {
  Table table({{.title = ""}, {.title = ""}});
  table.add_row({"M\u00fcller", "x"});
  table.add_row({"\u6c34\u8f66", "y"});
  EXPECT_EQ(table.render({}), "M\u00fcller  x\n\u6c34\u8f66    y\n");
}

TEST(Table, ColoursTheTextButNotItsPadding) {
  Table table({{.title = ""}, {.title = ""}});
  table.add_row({{"ok", Style::kGood}, "a"});
  table.add_row({"missing", "b"});
  EXPECT_EQ(table.render({.color = true}), "\x1b[32mok\x1b[0m       a\nmissing  b\n");
}

TEST(Table, EmptyCellsLeaveNoSpacesAtTheEndOfALine) {
  Table table({{.title = ""}, {.title = ""}});
  table.add_row({"a", ""});
  table.add_row({"", ""});
  EXPECT_EQ(table.render({}), "a\n\n");
}

TEST(Bar, ShowsSharesInAsciiAndInEighths) {
  EXPECT_EQ(bar(0.5, 4, false), "##  ");
  EXPECT_EQ(bar(1, 3, true), "\u2588\u2588\u2588");
  EXPECT_EQ(bar(0.5, 1, true), "\u258c");
  for (const double share : {0.0, 0.1, 0.33, 0.999, 1.0}) {
    EXPECT_EQ(display_width(bar(share, 10, true)), 10u) << share;
  }
}

TEST(Bar, ShowsSmallSharesAndClipsInvalidOnes) {
  EXPECT_EQ(bar(0.0001, 4, false), "#   ");
  EXPECT_EQ(bar(0, 4, false), "    ");
  EXPECT_EQ(bar(-3, 2, false), "  ");
  EXPECT_EQ(bar(7, 2, false), "##");
  EXPECT_EQ(bar(0.0 / 0.0, 2, false), "  ");
  EXPECT_EQ(bar(0.5, 0, true), "");
}

}  // namespace
}  // namespace millrace
