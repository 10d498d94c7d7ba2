#include "base/text/text.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

TEST(Text, WidthCountsColumnsNotBytes) {
  EXPECT_EQ(display_width("plain"), 5u);
  EXPECT_EQ(display_width("M\u00fcller"), 6u);
  EXPECT_EQ(display_width("e\u0301"), 1u);
  EXPECT_EQ(display_width("\u6c34\u8f66"), 4u);
  EXPECT_EQ(display_width("\xff\xfe"), 2u);
}

TEST(Text, ShortenKeepsWholeCharactersWithinTheColumns) {
  EXPECT_EQ(shorten("short", 5), "short");
  EXPECT_EQ(shorten("a longer text", 8), "a lon...");
  EXPECT_EQ(shorten("\u6c34\u8f66\u6c34\u8f66", 6), "\u6c34...");
  EXPECT_EQ(shorten("anything", 2), "..");
  EXPECT_EQ(shorten("anything", 0), "");
}

TEST(Text, PrintableEscapesControlCharactersAndKeepsLetters) {
  EXPECT_EQ(printable("a\x1b[31mb\n"), "a\\x1b[31mb\\x0a");
  EXPECT_EQ(printable("M\u00fcller"), "M\u00fcller");
  EXPECT_EQ(printable("\xff.jpg"), "\\xff.jpg");
  EXPECT_EQ(printable("\u0085"), "\\xc2\\x85");
}

TEST(Text, Utf8RefusesOverlongSurrogateAndTruncatedCharacters) {
  EXPECT_TRUE(is_utf8("ok \u00fc \u6c34 \U0001f600"));
  EXPECT_FALSE(is_utf8("\xc0\xaf"));
  EXPECT_FALSE(is_utf8("\xe0\x80\xaf"));
  EXPECT_FALSE(is_utf8("\xed\xa0\x80"));
  EXPECT_FALSE(is_utf8("\xf4\x90\x80\x80"));
  EXPECT_FALSE(is_utf8("\xe6\xb0"));
}

TEST(Text, WrapKeepsAPercentSignWithItsNumber) {
  EXPECT_EQ(wrap("saves 31.0 % of it", 10), (std::vector<std::string>{"saves", "31.0 % of", "it"}));
  EXPECT_EQ(wrap("saves 31.0 %", 10), (std::vector<std::string>{"saves", "31.0 %"}));
}

TEST(Text, WrapBreaksAtSpaces) {
  EXPECT_EQ(wrap("one two three", 8), (std::vector<std::string>{"one two", "three"}));
  EXPECT_EQ(wrap("unbreakable x", 4), (std::vector<std::string>{"unbreakable", "x"}));
  EXPECT_TRUE(wrap("", 10).empty());
}

TEST(Text, JoinPutsTheSeparatorOnlyBetween) {
  EXPECT_EQ(join({"a", "b", "c"}, ", "), "a, b, c");
  EXPECT_EQ(join({}, ", "), "");
  EXPECT_EQ(join({"", ""}, ","), ",");
}

}  // namespace
}  // namespace millrace
