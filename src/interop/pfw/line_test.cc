#include "interop/pfw/line.h"

#include <gtest/gtest.h>

namespace millrace::interop {
namespace {

TEST(PfwLine, ParsesLinesOfBothGenerations) {
  PfwLine line;
  ASSERT_TRUE(scan_pfw_line(
      R"({"id":8,"name":"read","cat":"POSIX","pid":1,"tid":2,"ts":30,"dur":4,"ph":"X","args":{"ret":-1,"fhash":"ab"}})",
      line));
  EXPECT_EQ(line.name.raw, "read");
  EXPECT_EQ(line.phase.raw, "X");
  EXPECT_FALSE(line.is_metadata());
  int64_t result = 0;
  EXPECT_TRUE(line.argument("ret")->to_signed(result));
  EXPECT_EQ(result, -1);
  EXPECT_EQ(line.argument("absent"), nullptr);

  ASSERT_TRUE(scan_pfw_line(
      R"({"name": "FH", "ph": 4, "args": {"name": "a\"\u00e9", "app": {"x":["}"]}}},)", line));
  EXPECT_TRUE(line.is_metadata());
  std::string storage;
  EXPECT_EQ(line.argument("name")->text(storage), "a\"\xc3\xa9");
  EXPECT_EQ(line.argument("app")->raw, R"({"x":["}"]})");
}

TEST(PfwLine, RejectsTruncatedAndInvalidLines) {
  const std::string whole =
      R"({"name":"read","cat":"POSIX","pid":1,"args":{"ret":1,"x":[1,{"y":"z"}]}})";
  PfwLine line;
  ASSERT_TRUE(scan_pfw_line(whole, line));
  for (size_t length = 0; length < whole.size(); ++length) {
    EXPECT_FALSE(scan_pfw_line(whole.substr(0, length), line)) << length;
  }
  EXPECT_FALSE(scan_pfw_line(whole + "x", line));
  EXPECT_FALSE(scan_pfw_line(R"({"name":word})", line));
  EXPECT_FALSE(scan_pfw_line("[]", line));
}

TEST(PfwLine, UsesTheGeneralParserForOtherSpellings) {
  PfwLine line;
  std::string storage;
  const std::string text =
      "{\t\"name\" :\n \"read\", \"args\" : { \"ret\" : 5, \"l\":[1,true,null] } }";
  ASSERT_FALSE(scan_pfw_line(text, line));
  ASSERT_TRUE(parse_pfw_line(text, storage, line).ok());
  EXPECT_EQ(line.name.raw, "read");
  EXPECT_EQ(line.argument("ret")->raw, "5");
  EXPECT_EQ(line.argument("l")->raw, "[1,true,null]");
  EXPECT_FALSE(parse_pfw_line("[1]", storage, line).ok());
  EXPECT_FALSE(parse_pfw_line("{", storage, line).ok());
}

TEST(PfwLine, UnescapesSurrogatePairsAndLoneHalves) {
  PfwLine line;
  std::string storage;
  ASSERT_TRUE(scan_pfw_line(R"({"name":"\ud83d\udc0e\ud83dx\n\/\u12"})", line));
  EXPECT_EQ(line.name.text(storage), "\xf0\x9f\x90\x8e\xef\xbf\xbdx\n/\\u12");
}

TEST(PfwLine, ConvertsTimesWithFractions) {
  const auto ns = [](std::string_view text, uint64_t unit) {
    uint64_t result = 0;
    const PfwValue value{.raw = text, .kind = PfwValue::Kind::kNumber};
    return to_nanoseconds(value, unit, result) ? static_cast<int64_t>(result) : -1;
  };
  EXPECT_EQ(ns("12", 1000), 12'000);
  EXPECT_EQ(ns("12.3456789", 1000), 12'345);
  EXPECT_EQ(ns("7", 1), 7);
  EXPECT_EQ(ns("-7", 1), -1);
  EXPECT_EQ(ns("1e5", 1), -1);
  EXPECT_EQ(ns("18446744073709551615", 1000), -1) << "does not fit";
}

}  // namespace
}  // namespace millrace::interop
