#include "interop/encode_text.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/text/json.h"

namespace millrace::interop {
namespace {

std::string json(std::string_view text) {
  std::string out;
  append_json_text(out, text);
  return out;
}

std::string csv(std::string_view text) {
  std::string out;
  append_csv_text(out, text);
  return out;
}

std::string number(double value) {
  std::string out;
  append_number(out, value);
  return out;
}

TEST(EncodeText, EscapesWhatJsonRequires) {
  EXPECT_EQ(json("a\"b\\c\nd\x01"), R"("a\"b\\c\nd\u0001")");
  EXPECT_EQ(json("\xc3\xa9"), "\"\xc3\xa9\"");
}

TEST(EncodeText, MakesBytesThatAreNotUtf8Recognizable) {
  EXPECT_EQ(json("a\xff"), R"("a\\xff")");
  EXPECT_TRUE(parse_json(json("\xc3\xff\xfe\x80"), "t").ok());
  EXPECT_EQ(well_formed(std::string_view("a\0\xff", 3)), "a\\x00\\xff");
}

TEST(EncodeText, QuotesCsvOnlyIfNeeded) {
  EXPECT_EQ(csv("plain text"), "plain text");
  EXPECT_EQ(csv("a,b"), "\"a,b\"");
  EXPECT_EQ(csv("say \"x\""), "\"say \"\"x\"\"\"");
  EXPECT_EQ(csv("two\nlines"), "\"two\nlines\"");
}

TEST(EncodeText, DistinguishesNumbersFromIntegers) {
  EXPECT_EQ(number(1), "1.0");
  EXPECT_EQ(number(0.1), "0.1");
  EXPECT_EQ(number(1e300), "1e+300");
  EXPECT_EQ(number(std::numeric_limits<double>::quiet_NaN()), "null");
}

TEST(EncodeText, ConvertsHexBackToBytes) {
  std::string digits;
  append_hex_bytes(digits, "a\xff");
  EXPECT_EQ(digits, "61ff");
  std::string bytes;
  EXPECT_TRUE(bytes_of_hex(digits, bytes));
  EXPECT_EQ(bytes, "a\xff");
  EXPECT_FALSE(bytes_of_hex("6", bytes));
  EXPECT_FALSE(bytes_of_hex("6g", bytes));
}

}  // namespace
}  // namespace millrace::interop
