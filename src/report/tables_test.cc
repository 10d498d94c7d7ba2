#include "report/tables.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

namespace millrace::report {
namespace {

TEST(Tables, EveryHeadingIsThatOfAColumn) {
  for (const std::string& name : table_names()) {
    const ProfileTable table = table_by({}, name);
    EXPECT_EQ(table.name, name);
    for (const TableHeading& heading : table.headings) {
      EXPECT_NE(std::ranges::find(table.columns, heading.column, &TableColumn::title),
                table.columns.end())
          << name << ": " << heading.column;
    }
  }
}

TEST(Tables, NoTwoColumnsHaveTheSameName) {
  for (const std::string& name : table_names()) {
    std::set<std::string> titles;
    for (const TableColumn& column : table_by({}, name).columns) {
      EXPECT_TRUE(titles.insert(column.title).second) << name << ": " << column.title;
    }
  }
}

TEST(Tables, ColumnsHaveTheNamesOfTheProfile) {
  analyze::Profile profile;
  profile.files.resize(1);
  profile.files[0].path = "a,b";
  profile.files[0].io.read_ns = 7;
  profile.files[0].read.small = 3;
  const std::string csv = table_csv(table_by(profile, "file"));
  EXPECT_TRUE(csv.starts_with("path,kind,opens,reads,writes,")) << csv;
  for (const char* name : {",read_ns,", ",first_ns,", ",read_small,", ",unique_bytes_read,"}) {
    EXPECT_NE(csv.find(name), std::string::npos) << name;
  }
  EXPECT_NE(csv.find("\n\"a,b\",system,0,"), std::string::npos) << csv;
}

}  // namespace
}  // namespace millrace::report
