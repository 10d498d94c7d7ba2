#include "base/text/json_writer.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/text/json.h"

namespace millrace {
namespace {

TEST(JsonWriter, WritesNestedValuesReadably) {
  JsonWriter json;
  json.begin_object();
  json.field("name", "x");
  json.field("count", uint64_t{18446744073709551615u});
  json.key("items");
  json.begin_list();
  json.value(1.5);
  json.value(true);
  json.null();
  json.end_list();
  json.key("empty");
  json.begin_object();
  json.end_object();
  json.end_object();
  EXPECT_EQ(std::move(json).finish(),
            "{\n"
            "  \"name\": \"x\",\n"
            "  \"count\": 18446744073709551615,\n"
            "  \"items\": [\n"
            "    1.5,\n"
            "    true,\n"
            "    null\n"
            "  ],\n"
            "  \"empty\": {}\n"
            "}\n");
}

TEST(JsonWriter, AOneLineListStaysOnOneLineToItsEnd) {
  JsonWriter json;
  json.begin_object();
  json.key("pairs");
  json.begin_list(JsonLayout::kOneLine);
  json.begin_object();
  json.field("a", 1);
  json.field("b", 2);
  json.end_object();
  json.begin_list(JsonLayout::kOneLine);
  json.end_list();
  json.value(3);
  json.end_list();
  json.field("after", true);
  json.end_object();
  EXPECT_EQ(std::move(json).finish(),
            "{\n"
            "  \"pairs\": [{\"a\": 1, \"b\": 2}, [], 3],\n"
            "  \"after\": true\n"
            "}\n");
}

TEST(JsonWriter, WritesRangesAsListsAndNothingAsNull) {
  JsonWriter json;
  json.begin_object();
  json.values("names", std::vector<std::string>{"a", "b"}, JsonLayout::kOneLine);
  const std::optional<int> numbers[] = {1, std::nullopt};
  const auto put = [&](const std::optional<int>& number) { json.field("number", number); };
  json.objects("numbers", JsonLayout::kOneLine, numbers, put);
  json.objects("none", std::vector<std::optional<int>>(), put);
  json.begin_list("lines");
  json.value(1);
  json.end_list();
  json.begin_object("line", JsonLayout::kOneLine);
  json.field("held", true);
  json.end_object();
  json.end_object();
  EXPECT_EQ(std::move(json).finish(),
            "{\n"
            "  \"names\": [\"a\", \"b\"],\n"
            "  \"numbers\": [\n"
            "    {\"number\": 1},\n"
            "    {\"number\": null}\n"
            "  ],\n"
            "  \"none\": [],\n"
            "  \"lines\": [\n"
            "    1\n"
            "  ],\n"
            "  \"line\": {\"held\": true}\n"
            "}\n");
}

TEST(JsonWriter, AnyBytesGiveValidJson) {
  JsonWriter json;
  json.begin_list();
  json.value("quote \" back \\ line \n bell \x07 \u00fc");
  json.value("bad \xff byte");
  json.end_list();
  const auto document = parse_json(std::move(json).finish(), "out");
  ASSERT_TRUE(document.ok()) << document.error().message();
  EXPECT_EQ(document->root.items()[0].text(), "quote \" back \\ line \n bell \x07 \u00fc");
  EXPECT_EQ(document->root.items()[1].text(), "bad \ufffd byte");
}

TEST(JsonWriter, NumbersReadBackExactlyAndNaNIsNull) {
  JsonWriter json;
  json.begin_list();
  json.value(0.1);
  json.value(-1e300);
  json.value(std::numeric_limits<double>::quiet_NaN());
  json.value(std::numeric_limits<double>::infinity());
  json.end_list();
  const auto document = parse_json(std::move(json).finish(), "out");
  ASSERT_TRUE(document.ok()) << document.error().message();
  EXPECT_EQ(*document->root.items()[0].as_double(), 0.1);
  EXPECT_EQ(*document->root.items()[1].as_double(), -1e300);
  EXPECT_TRUE(document->root.items()[2].is_null());
  EXPECT_TRUE(document->root.items()[3].is_null());
}

}  // namespace
}  // namespace millrace
