#include "base/text/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace millrace {
namespace {

using testing::HasSubstr;

std::string error_of(std::string_view text) {
  const auto document = parse_json(text, "f.json");
  return document.ok() ? "no error" : document.error().message();
}

TEST(Json, ReadsEveryKindOfValue) {
  const auto document = parse_json(
      R"({"a": [1, -2.5e3, true, false, null, "x\n\u00fc\ud83d\ude00"], "b": {}, "c": []})",
      "f.json");
  ASSERT_TRUE(document.ok()) << document.error().message();
  const Node* a = document->root.find("a");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(*a->items()[0].as_int(), 1);
  EXPECT_EQ(*a->items()[1].as_double(), -2500);
  EXPECT_EQ(*a->items()[2].as_bool(), true);
  EXPECT_EQ(*a->items()[3].as_bool(), false);
  EXPECT_TRUE(a->items()[4].is_null());
  EXPECT_EQ(*a->items()[5].as_string(), "x\n\u00fc\U0001f600");
  EXPECT_EQ(document->root.find("b")->kind(), Node::Kind::kMap);
  EXPECT_EQ(document->root.find("c")->kind(), Node::Kind::kList);
  EXPECT_EQ(document->root.find("d"), nullptr);
}

TEST(Json, LosesNoDigitsOfLargeNumbers) {
  const auto document = parse_json("18446744073709551615", "f.json");
  EXPECT_EQ(*document->root.as_uint(), ~uint64_t{0});
  EXPECT_FALSE(document->root.as_int().ok());
}

TEST(Json, EveryValueKnowsItsLine) {
  const auto document = parse_json("{\n  \"a\": 1,\n  \"b\": [\n    2\n  ]\n}\n", "f.json");
  ASSERT_TRUE(document.ok());
  EXPECT_EQ(document->root.line(), 1u);
  EXPECT_EQ(document->root.find("a")->line(), 2u);
  EXPECT_EQ(document->root.find("b")->items()[0].line(), 4u);
}

TEST(Json, ErrorsNameTheLineAndWhatWasFound) {
  EXPECT_EQ(error_of("{\n\"a\": 1\n\"b\": 2}"),
            "f.json:3: expected ',' or '}' in an object, found '\"'");
  EXPECT_EQ(error_of(""), "f.json:1: expected a value, found the end of the file");
  EXPECT_EQ(error_of("[1, 2,]"), "f.json:1: expected a value, found ']'");
  EXPECT_EQ(error_of("{\"a\":1,\n \"a\":2}"), "f.json:2: the name 'a' appears twice");
  EXPECT_EQ(error_of("1 2"), "f.json:1: expected the end of the file, found '2'");
}

TEST(Json, FindsADuplicateNameInALargeObject) {
  std::string text = "{";
  for (int i = 0; i < 100; ++i) text += fmt::format("\"k{}\": {},\n", i, i);
  EXPECT_EQ(error_of(text + "\"k57\": 1}"), "f.json:101: the name 'k57' appears twice");
}

TEST(Json, RefusesWhatTheStandardForbids) {
  for (const char* text : {"{a: 1}",
                           "[01]",
                           "[1.]",
                           "[1e]",
                           "[.5]",
                           "[+1]",
                           "[NaN]",
                           "'x'",
                           "[1 // c\n]",
                           "tru",
                           "{\"a\"}",
                           "\"open",
                           "\"\\q\"",
                           "\"\\u12\"",
                           "\"\\ud800\"",
                           "\"\\ud800\\u0041\"",
                           "\"\\udc00\"",
                           "[",
                           "{",
                           "\"\t\"",
                           "\"\xff\"",
                           "nul",
                           "-"}) {
    EXPECT_NE(error_of(text), "no error") << text;
  }
  EXPECT_NE(error_of(std::string_view("\"\0\"", 3)), "no error");
}

TEST(Json, RefusesDeepNesting) {
  EXPECT_THAT(error_of(std::string(100'000, '[')), HasSubstr("nested more than 200 deep"));
  EXPECT_EQ(error_of(std::string(150, '[') + std::string(150, ']')), "no error");
}

TEST(Json, ReadsALargeObjectInLinearTime) {
  std::string text = "{\"k0\":0";
  for (int i = 1; i < 200'000; ++i) text += fmt::format(",\"k{}\":{}", i, i);
  text += "}";
  const auto document = parse_json(text, "f.json");
  ASSERT_TRUE(document.ok());
  EXPECT_EQ(document->root.members().size(), 200'000u);
}

TEST(Node, TypeErrorsSayWhatWasFound) {
  const auto document = parse_json(R"(["x", 1.5, {}, -1])", "f.json");
  const auto& items = document->root.items();
  EXPECT_EQ(items[0].as_int().error().message(), "expected a whole number, found the string 'x'");
  EXPECT_EQ(items[1].as_int().error().message(), "expected a whole number, found the number 1.5");
  EXPECT_EQ(items[2].as_string().error().message(), "expected a string, found a section with keys");
  EXPECT_EQ(items[3].as_uint().error().message(),
            "expected a whole number that is not negative, found the number -1");
  EXPECT_EQ(items[1].as_bool().error().message(), "expected true or false, found the number 1.5");
}

}  // namespace
}  // namespace millrace
