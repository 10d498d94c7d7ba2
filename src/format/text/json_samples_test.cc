#include "format/text/json_samples.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>

#include "io/testing/memory_engine.h"

namespace millrace::format {
namespace {

using data::ElementType;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// The parts of the text that are samples; the text may come in any pieces.
Result<std::vector<std::string>> samples_of(std::string_view text) {
  std::vector<std::vector<std::string>> all;
  for (const size_t piece_bytes : {text.size() + 1, size_t{1}}) {
    JsonListScan scan;
    for (size_t at = 0; at < text.size(); at += piece_bytes) scan.add(text.substr(at, piece_bytes));
    ASSIGN_OR_RETURN(const auto spans, scan.finish());
    all.emplace_back();
    for (const data::Span& span : spans) {
      all.back().emplace_back(text.substr(span.offset_bytes, span.size_bytes));
    }
  }
  EXPECT_EQ(all[0], all[1]);
  return all[0];
}

std::string fields_of(std::string_view text) {
  SampleFields fields;
  const Status status = parse_json_sample(text, ElementType::kF32, fields);
  if (!status.ok()) return status.error().message();
  std::string shown;
  for (const Field& field : fields.list()) {
    const data::ArrayView& array = field.array;
    shown += fmt::format("{}={}{}", field.name, data::element_name(array.type), array.shape.text());
    for (size_t i = 0; i < array.shape.element_count(); ++i) {
      int64_t integer = 0;
      float number = 0;
      if (array.type == ElementType::kI64) {
        std::memcpy(&integer, array.bytes.data() + i * 8, 8);
        shown += fmt::format(" {}", integer);
      } else if (array.type == ElementType::kF32) {
        std::memcpy(&number, array.bytes.data() + i * 4, 4);
        shown += fmt::format(" {}", number);
      } else {
        shown += fmt::format(" {}", std::to_integer<int>(array.bytes[i]));
      }
    }
    shown += ';';
  }
  return shown;
}

TEST(JsonListScan, FindsTheSamplesOfAList) {
  EXPECT_THAT(*samples_of(R"( [ {"a": [1, "]},"]} , {"b\"": 2} ] )"),
              ElementsAre(R"({"a": [1, "]},"]})", R"({"b\"": 2})"));
  EXPECT_THAT(*samples_of("[[1, 2], [3]]"), ElementsAre("[1, 2]", "[3]"));
  EXPECT_THAT(*samples_of("[]"), IsEmpty());
}

TEST(JsonListScan, OtherValuesAreOneSample) {
  EXPECT_THAT(*samples_of(" {\"a\": 1}\n"), ElementsAre("{\"a\": 1}"));
  EXPECT_THAT(*samples_of("[1, 2]"), ElementsAre("[1, 2]"));
  EXPECT_THAT(*samples_of("[\"a]\"]"), ElementsAre("[\"a]\"]"));
  EXPECT_THAT(*samples_of("\xef\xbb\xbf 5"), ElementsAre("5"));
}

TEST(JsonListScan, RefusesAListThatIsNotClosedOrHasGaps) {
  EXPECT_THAT(samples_of("").error().message(), HasSubstr("no JSON value"));
  EXPECT_THAT(samples_of("[{}").error().message(), HasSubstr("not closed"));
  EXPECT_THAT(samples_of("[{\"a").error().message(), HasSubstr("not closed"));
  EXPECT_THAT(samples_of("[{}] {}").error().message(), HasSubstr("byte 5"));
  EXPECT_FALSE(samples_of("[{},]").ok());
  EXPECT_FALSE(samples_of("[,{}]").ok());
}

TEST(JsonSample, ValuesBecomeFields) {
  EXPECT_EQ(fields_of(R"({"a": 1, "b": 0.5, "c": "hi", "d": true, "e": null})"),
            "a=int64[] 1;b=float32[] 0.5;c=uint8[2] 104 105;d=bool[] 1;");
  EXPECT_EQ(fields_of(R"({"a": [1, 2], "b": [[1, 2.5], [3, null]], "c": [], "d": [true, false]})"),
            "a=int64[2] 1 2;b=float32[2, 2] 1 2.5 3 nan;c=float32[0];d=bool[2] 1 0;");
  EXPECT_EQ(fields_of(R"({"box": {"x": 1, "at": {"y": 2}}})"),
            "box.x=int64[] 1;box.at.y=int64[] 2;");
  EXPECT_EQ(fields_of("[1, 2]"), "data=int64[2] 1 2;");
  EXPECT_EQ(fields_of("7"), "data=int64[] 7;");
}

TEST(JsonSample, ListsOfOtherThingsHaveNumberedItems) {
  EXPECT_EQ(fields_of(R"({"w": ["a", "b"]})"), "w.0=uint8[1] 97;w.1=uint8[1] 98;");
  EXPECT_EQ(fields_of(R"({"r": [[1], [2, 3]]})"), "r.0=int64[1] 1;r.1=int64[2] 2 3;");
  EXPECT_EQ(fields_of(R"({"m": [1, [2]]})"), "m.0=int64[] 1;m.1=int64[1] 2;");
  EXPECT_EQ(fields_of(R"({"o": [{"x": 1}]})"), "o.0.x=int64[] 1;");
}

TEST(JsonSample, TooLargeNumbersAreFloats) {
  EXPECT_EQ(fields_of(R"({"a": 9223372036854775808})"), "a=float32[] 9.223372e+18;");
  EXPECT_THAT(fields_of("{\"a\": 01}"), HasSubstr("json:1: a number has a leading zero"));
}

TEST(JsonSample, IsReadAsItWasWritten) {
  const float numbers[] = {1, 0.1f, -3e20f, 4};
  const bool truth = true;
  const Field fields[] = {
      {.name = "x", .array = {ElementType::kF32, {2, 2}, std::as_bytes(std::span(numbers))}},
      bytes_field("t", bytes_of("a\"\n\xc3\xa9")),
      {.name = "ok", .array = {ElementType::kBool, {}, std::as_bytes(std::span(&truth, 1))}}};
  EXPECT_EQ(*make_json_sample(fields),
            "{\"x\": [[1.0, 0.1], [-3e+20, 4.0]], \"t\": \"a\\\"\\u000a\xc3\xa9\", \"ok\": true}");
  EXPECT_EQ(fields_of(*make_json_sample(fields)),
            "x=float32[2, 2] 1 0.1 -3e+20 4;t=uint8[5] 97 34 10 195 169;ok=bool[] 1;");
}

TEST(JsonSample, RefusesWhatJsonCannotHold) {
  const float nan = NAN;
  const Field number = {.name = "x",
                        .array = {ElementType::kF32, {}, std::as_bytes(std::span(&nan, 1))}};
  EXPECT_THAT(make_json_sample(std::span(&number, 1)).error().message(),
              HasSubstr("'x': JSON has no number for nan"));
  const Field bytes = bytes_field("jpg", bytes_of("\xff\xd8"));
  EXPECT_THAT(make_json_sample(std::span(&bytes, 1)).error().message(),
              HasSubstr("'jpg': its bytes are not UTF-8 text"));
}

TEST(Jsonl, HasASamplePerLine) {
  io::MemoryEngine engine;
  const auto writer = *engine.create("a.jsonl");
  const std::string content = "{\"a\": 1}\r\n\n  {\"a\": 2} \n{\"a\": 3}";
  ASSERT_TRUE(writer->write_at(0, bytes_of(content)).ok());
  const auto samples = *(*open_format("jsonl"))->index(engine, "a.jsonl");
  EXPECT_THAT(samples.spans, ElementsAre(data::Span{0, 8}, data::Span{13, 8}, data::Span{23, 8}));
}

TEST(Json, WritesAListOfSamples) {
  for (const auto& [name, expected] :
       {std::pair{"json", "[\n{\"data\": [1]},\n{\"data\": [1]}\n]\n"},
        std::pair{"jsonl", "{\"data\": [1]}\n{\"data\": [1]}\n"}}) {
    io::MemoryEngine engine;
    const auto format = *open_format(name);
    const auto writer = *format->create(engine, "a");
    const Field field = bytes_field("data", bytes_of("\1"));
    for (int i = 0; i < 2; ++i) ASSERT_TRUE(writer->add("k", std::span(&field, 1)).ok());
    ASSERT_TRUE(writer->finish().ok());
    const auto reader = *engine.open("a");
    std::string text(*reader->size_bytes(), '\0');
    ASSERT_TRUE(reader->read_at(0, std::as_writable_bytes(std::span(text))).ok());
    EXPECT_EQ(text, expected);
    EXPECT_EQ(format->index(engine, "a")->count(), 2u);
  }
}

}  // namespace
}  // namespace millrace::format
