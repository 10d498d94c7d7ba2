#include <gmock/gmock.h>

#include <cmath>
#include <cstring>

#include "format/file_source.h"
#include "format/text/number_text.h"
#include "io/testing/memory_engine.h"

namespace millrace::format {
namespace {

using data::ElementType;
using data::SampleId;
using testing::ElementsAre;
using testing::HasSubstr;

void put(io::Engine& engine, const std::string& path, std::string_view content) {
  const auto writer = *engine.create(path);
  ASSERT_TRUE(writer->write_at(0, bytes_of(content)).ok());
  ASSERT_TRUE(writer->close().ok());
}

template <typename T>
std::string numbers_of(const data::ArrayView& array) {
  std::string text;
  for (size_t i = 0; i < array.shape.element_count(); ++i) {
    T value;
    std::memcpy(&value, array.bytes.data() + i * sizeof(T), sizeof(T));
    text += fmt::format("{}{}", i == 0 ? "" : " ", value);
  }
  return text;
}

// "a=int64[] 7", "b='x'".
std::string shown(const Field& field) {
  const data::ArrayView& array = field.array;
  if (array.type == ElementType::kU8) {
    return fmt::format("{}='{}'", field.name, text_of(array.bytes));
  }
  const std::string head = fmt::format("{}={}{}", field.name, data::element_name(array.type),
                                       array.shape.axis_count() == 0 ? "" : array.shape.text());
  if (array.type == ElementType::kI64) return head + " " + numbers_of<int64_t>(array);
  if (array.type == ElementType::kF64) return head + " " + numbers_of<double>(array);
  return head + " " + numbers_of<float>(array);
}

class CsvTest : public testing::Test {
 protected:
  Result<std::vector<std::string>> read(std::string_view content, FormatOptions options = {},
                                        const std::string& name = "csv") {
    put(*engine_, "a.csv", content);
    return read_files({"a.csv"}, options, name);
  }

  // The fields of each sample, as text.
  Result<std::vector<std::string>> read_files(std::vector<std::filesystem::path> paths,
                                              FormatOptions options = {},
                                              const std::string& name = "csv") {
    ASSIGN_OR_RETURN(const auto source, open_files({.format = name,
                                                    .format_options = options,
                                                    .paths = std::move(paths),
                                                    .engine = engine_}));
    std::vector<std::string> samples;
    SampleFields fields;
    data::Buffer room;
    for (uint64_t i = 0; i < source->sample_count(); ++i) {
      ASSIGN_OR_RETURN(const ByteView bytes, source->read(SampleId{i}, room));
      RETURN_IF_ERROR(source->format()->split(bytes, fields));
      std::string text;
      for (const Field& field : fields.list()) text += (text.empty() ? "" : ", ") + shown(field);
      samples.push_back(text);
    }
    return samples;
  }

  std::string refusal(std::string_view content, FormatOptions options = {}) {
    const auto samples = read(content, options);
    return samples.ok() ? "read" : samples.error().message();
  }

  std::shared_ptr<io::MemoryEngine> engine_ = std::make_shared<io::MemoryEngine>();
};

TEST_F(CsvTest, ARowOfNumbersIsOneArray) {
  EXPECT_THAT(*read("1,2,-3\n4,5,6\n"), ElementsAre("data=int64[3] 1 2 -3", "data=int64[3] 4 5 6"));
  EXPECT_THAT(*read("1,2\n4,0.5"), ElementsAre("data=float32[2] 1 2", "data=float32[2] 4 0.5"));
  EXPECT_THAT(*read("1,.5\n4,1e3\n", {.text_float = ElementType::kF64}),
              ElementsAre("data=float64[2] 1 0.5", "data=float64[2] 4 1000"));
}

TEST_F(CsvTest, AHeaderNamesTheFields) {
  EXPECT_THAT(*read("id,score,text\n7,0.5,cat\n8,1,\"a,\"\"b\"\"\nc\"\n"),
              ElementsAre("id=int64 7, score=float32 0.5, text='cat'",
                          "id=int64 8, score=float32 1, text='a,\"b\"\nc'"));
}

TEST_F(CsvTest, TextWithoutAHeaderHasNumberedColumns) {
  EXPECT_THAT(*read("7,cat\n8,dog\n"), ElementsAre("0=int64 7, 1='cat'", "0=int64 8, 1='dog'"));
  EXPECT_THAT(*read("cat,dog\nowl,cow\n", {.header = HeaderRow::kNo}),
              ElementsAre("0='cat', 1='dog'", "0='owl', 1='cow'"));
  EXPECT_THAT(*read("1,2\n3,4\n", {.header = HeaderRow::kYes}),
              ElementsAre("1=int64 3, 2=int64 4"));
}

TEST_F(CsvTest, LineEndsEmptyLinesAndSpacesDoNotMatter) {
  EXPECT_THAT(*read("\xef\xbb\xbf"
                    "a,b\r\n\r\n 1 , 2\r\n\n3,4\r\n"),
              ElementsAre("a=int64 1, b=int64 2", "a=int64 3, b=int64 4"));
  EXPECT_THAT(*read("x\ty\n1\t2\n", {}, "tsv"), ElementsAre("x=int64 1, y=int64 2"));
  EXPECT_THAT(*read(""), ElementsAre());
  EXPECT_THAT(*read("a,b\n"), ElementsAre());
}

TEST_F(CsvTest, OnlyNumbersAreNumbers) {
  EXPECT_THAT(*read("a,b,c,d,e,f\n2024-01-01,1.2.3,0x1,-,1e,\"5\"\n"),
              ElementsAre("a='2024-01-01', b='1.2.3', c='0x1', d='-', e='1e', f='5'"));
  EXPECT_THAT(*read("a,b,c,d,e\n+5,-.5,5.,nan,-inf\n"),
              ElementsAre("a=int64 5, b=float32 -0.5, c=float32 5, d=float32 nan, e=float32 -inf"));
  // More than 18 digits may not fit into 64 bits.
  EXPECT_THAT(
      *read("a,b\n123456789012345678,1234567890123456789\n", {.text_float = ElementType::kF64}),
      ElementsAre("a=int64 123456789012345678, b=float64 1.2345678901234568e+18"));
  EXPECT_THAT(*read("a,b\n1e999,1e-999\n"), ElementsAre("a=float32 inf, b=float32 0"));
}

TEST_F(CsvTest, AnEmptyCellAmongNumbersIsNan) {
  EXPECT_THAT(*read("1,2\n,4\n"), ElementsAre("data=float32[2] 1 2", "data=float32[2] nan 4"));
  EXPECT_THAT(*read("a,b\nx,1\n,2\n"), ElementsAre("a='x', b=int64 1", "a='', b=int64 2"));
}

TEST_F(CsvTest, AColumnHasTheTypeThatFitsAllFiles) {
  put(*engine_, "1.csv", "a,b\n1,2\n");
  put(*engine_, "2.csv", "a,b\n0.5,x\n");
  EXPECT_THAT(*read_files({"1.csv", "2.csv"}),
              ElementsAre("a=float32 1, b='2'", "a=float32 0.5, b='x'"));
  put(*engine_, "3.csv", "a,c\n1,2\n");
  const auto other = read_files({"1.csv", "3.csv"});
  ASSERT_FALSE(other.ok());
  EXPECT_THAT(other.error().message(), HasSubstr("but another file has 2 columns"));
}

TEST_F(CsvTest, RowsOfNumbersMayBeLongerInAnotherFile) {
  put(*engine_, "1.csv", "1,2\n3,4\n");
  put(*engine_, "2.csv", "5,6,7\n");
  put(*engine_, "3.csv", "0.5\n");
  EXPECT_THAT(*read_files({"1.csv", "2.csv"}),
              ElementsAre("data=int64[2] 1 2", "data=int64[2] 3 4", "data=int64[3] 5 6 7"));
  EXPECT_THAT(*read_files({"2.csv", "1.csv", "3.csv"}),
              ElementsAre("data=float32[3] 5 6 7", "data=float32[2] 1 2", "data=float32[2] 3 4",
                          "data=float32[1] 0.5"));
  put(*engine_, "4.csv", "x\n");
  const auto with_text = read_files({"1.csv", "2.csv", "4.csv"}, {.header = HeaderRow::kNo});
  ASSERT_FALSE(with_text.ok());
  // Files are opened by several threads, so any of them may be the other one.
  EXPECT_THAT(with_text.error().message(), HasSubstr("without names, but another file has "));
}

TEST_F(CsvTest, DamageIsNamed) {
  EXPECT_EQ(refusal("1,2\n3\n"), "a.csv: row 2 at byte 4: has 1 cells, but the first row has 2");
  EXPECT_THAT(refusal("a,b\n\"x,1\n"), HasSubstr("row 2 at byte 4: a quote is not closed"));
  EXPECT_THAT(refusal("a,b\n\"x\"y,1\n"), HasSubstr("text follows the closing quote of cell 1"));
  EXPECT_THAT(refusal("a,a\n1,2\n", {.header = HeaderRow::kYes}), HasSubstr("a name twice"));
}

TEST_F(CsvTest, PiecesOfTheFileDoNotMatter) {
  // Longer than a piece, with quotes and line ends across the border.
  std::string content = "text,number\n";
  for (int i = 0; content.size() < 3'000'000; ++i) {
    content += fmt::format("\"{}\n\"\"\",{}\r\n", std::string(static_cast<size_t>(i % 97), 'x'), i);
  }
  const auto samples = read(content);
  ASSERT_TRUE(samples.ok()) << samples.error().message();
  for (size_t i = 0; i < samples->size(); ++i) {
    ASSERT_EQ((*samples)[i],
              fmt::format("text='{}\n\"', number=int64 {}", std::string(i % 97, 'x'), i));
  }
}

TEST_F(CsvTest, IsReadAsItWasWritten) {
  const float score = 0.1f;
  const int64_t id = -5;
  const std::string texts[] = {"plain", "a,\"b\"\r\n", "", "17", " ", "nan"};
  {
    const auto writer = *(*open_format("csv"))->create(*engine_, "w.csv");
    for (const std::string& text : texts) {
      const Field fields[] = {
          bytes_field("text", bytes_of(text)),
          {.name = "score", .array = {ElementType::kF32, {}, std::as_bytes(std::span(&score, 1))}},
          {.name = "id", .array = {ElementType::kI64, {1}, std::as_bytes(std::span(&id, 1))}}};
      ASSERT_TRUE(writer->add("k", fields).ok());
    }
    ASSERT_TRUE(writer->finish().ok());
  }
  std::vector<std::string> expected;
  for (const std::string& text : texts) {
    expected.push_back(fmt::format("text='{}', score=float32 0.1, id=int64 -5", text));
  }
  EXPECT_EQ(*read_files({"w.csv"}), expected);
}

TEST_F(CsvTest, TheWriterRefusesWhatIsNotATable) {
  const float values[] = {1, 2};
  const Field array = {.name = "x",
                       .array = {ElementType::kF32, {2}, std::as_bytes(std::span(values))}};
  const Field text = bytes_field("t", bytes_of("x"));
  const auto writer = *(*open_format("csv"))->create(*engine_, "w.csv");
  const Field both[] = {array, text};
  EXPECT_THAT(writer->add("k", both).error().message(),
              HasSubstr("'x' of sample 'k' is [2] of float32, but a cell is one number or text"));
  const auto other = *(*open_format("csv"))->create(*engine_, "v.csv");
  ASSERT_TRUE(other->add("k", std::span(&array, 1)).ok());
  EXPECT_THAT(other->add("l", std::span(&text, 1)).error().message(),
              HasSubstr("has other columns than the first"));
}

TEST(NumberText, IsParsedAsAWhole) {
  EXPECT_EQ(parse_number<int64_t>("-9223372036854775808"), INT64_MIN);
  EXPECT_EQ(parse_number<int64_t>("9223372036854775808"), std::nullopt);
  EXPECT_EQ(parse_number<int64_t>("1.5"), std::nullopt);
  EXPECT_EQ(parse_number<double>(" +1.5\r"), 1.5);
  EXPECT_EQ(parse_number<double>("+-1"), std::nullopt);
  EXPECT_EQ(parse_number<double>(""), std::nullopt);
  EXPECT_EQ(parse_number<float>("1e40"), INFINITY);
}

TEST(NumberText, OfManyBytesIsThatOfEachByte) {
  std::vector<uint8_t> values(256);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<uint8_t>(i);
  const data::ArrayView array{ElementType::kU8, {256}, std::as_bytes(std::span(values))};
  std::string each = "x";
  for (size_t i = 3; i < 250; ++i) {
    if (i > 3) each += ", ";
    ASSERT_TRUE(append_number(each, array, i).ok());
  }
  std::string all = "x";
  ASSERT_TRUE(append_numbers(all, array, 3, 247, ", ").ok());
  EXPECT_EQ(all, each);
  ASSERT_TRUE(append_numbers(all, array, 7, 0, ",").ok());
  EXPECT_EQ(all, each);
}

TEST(NumberText, IsConvertedIfItFits) {
  const int64_t values[] = {300, -1};
  const ByteView bytes = std::as_bytes(std::span(values));
  std::vector<std::byte> out(16);
  EXPECT_TRUE(convert_numbers(ElementType::kI64, bytes, ElementType::kI16, out));
  EXPECT_FALSE(convert_numbers(ElementType::kI64, bytes, ElementType::kU8, out));
  EXPECT_TRUE(convert_numbers(ElementType::kI64, bytes, ElementType::kF32, out));
  EXPECT_FALSE(convert_numbers(ElementType::kI64, bytes, ElementType::kF16, out));
  const double half[] = {0.5, 1e300};
  const ByteView halves = std::as_bytes(std::span(half));
  EXPECT_FALSE(convert_numbers(ElementType::kF64, halves.first(8), ElementType::kI64, out));
  EXPECT_FALSE(convert_numbers(ElementType::kF64, halves.subspan(8), ElementType::kI64, out));
}

}  // namespace
}  // namespace millrace::format
