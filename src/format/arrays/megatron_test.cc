#include "format/arrays/megatron.h"

#include <gmock/gmock.h>

#include <cstring>

#include "format/file_source.h"
#include "io/testing/memory_engine.h"

namespace millrace::format {
namespace {

using data::ElementType;
using data::SampleId;
using testing::ElementsAre;
using testing::HasSubstr;

template <typename T>
void append(std::string& out, std::initializer_list<T> values) {
  for (const T value : values) out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// Three sequences of 2, 3 and 1 tokens of uint16; the second and third are one document.
std::string index_file() {
  std::string file("MMIDIDX\0\0", 9);
  append<uint64_t>(file, {1});
  append<uint8_t>(file, {8});
  append<uint64_t>(file, {3, 3});
  append<int32_t>(file, {2, 3, 1});
  append<int64_t>(file, {0, 4, 10});
  append<int64_t>(file, {0, 1, 3});
  return file;
}

TEST(Megatron, SamplesAreDocuments) {
  const auto found = *parse_megatron(bytes_of(index_file()), 12, 0);
  EXPECT_EQ(found.type, ElementType::kU16);
  EXPECT_THAT(found.samples.spans, ElementsAre(data::Span{0, 4}, data::Span{4, 8}));
}

TEST(Megatron, SamplesAreWindowsThatShareOneToken) {
  EXPECT_THAT(parse_megatron(bytes_of(index_file()), 12, 2)->samples.spans,
              ElementsAre(data::Span{0, 6}, data::Span{4, 6}));
  EXPECT_THAT(parse_megatron(bytes_of(index_file()), 12, 5)->samples.spans,
              ElementsAre(data::Span{0, 12}));
  EXPECT_THAT(parse_megatron(bytes_of(index_file()), 12, 6)->samples.spans, ElementsAre());
  const auto windows = *parse_megatron(bytes_of(index_file()), 12, 2);
  EXPECT_EQ(windows.samples.element,
            (data::FieldSpec{.name = "tokens", .type = ElementType::kU16, .shape = {3}}));
}

TEST(Megatron, TheModesOfMultimodalDatasetsAreIgnored) {
  EXPECT_TRUE(parse_megatron(bytes_of(index_file() + "123"), 12, 0).ok());
  EXPECT_FALSE(parse_megatron(bytes_of(index_file() + "12"), 12, 0).ok());
}

TEST(Megatron, NoticesAnIndexOfOtherData) {
  EXPECT_THAT(parse_megatron(bytes_of(index_file()), 14, 0).error().message(),
              HasSubstr("the sequences end at byte 12, but the data file at 14"));
  EXPECT_THAT(parse_megatron(bytes_of(index_file()), 11, 0).error().message(),
              HasSubstr("sequence 2 has 1 tokens at byte 10"));
}

TEST(Megatron, AFlippedOrMissingBitIsAnErrorOrIsChecked) {
  const std::string file = index_file();
  for (size_t at = 0; at < file.size() * 8; ++at) {
    std::string flipped = file;
    flipped[at / 8] = static_cast<char>(flipped[at / 8] ^ 1 << at % 8);
    const auto found = parse_megatron(bytes_of(flipped), 12, 0);
    if (!found.ok()) continue;
    for (const data::Span& span : found->samples.spans) {
      ASSERT_LE(span.offset_bytes + span.size_bytes, 12u) << at;
    }
  }
  for (size_t size = 0; size < file.size(); ++size) {
    EXPECT_FALSE(parse_megatron(bytes_of(file.substr(0, size)), 12, 0).ok()) << size;
  }
}

TEST(Megatron, IsReadAsItWasWritten) {
  const auto engine = std::make_shared<io::MemoryEngine>();
  const std::vector<std::vector<int32_t>> documents = {{1, 2, 3}, {}, {4, 5, 6, 7}};
  const auto writer = *(*open_format("megatron"))->create(*engine, "t.bin");
  for (const auto& tokens : documents) {
    const Field field = {
        .name = "tokens",
        .array = {ElementType::kI32, {tokens.size()}, std::as_bytes(std::span(tokens))}};
    ASSERT_TRUE(writer->add("k", std::span(&field, 1)).ok());
  }
  ASSERT_TRUE(writer->finish().ok());
  for (const uint64_t window : {0, 3}) {
    const auto source = *open_files({.format = "megatron",
                                     .format_options = {.window_tokens = window},
                                     .paths = {"t.bin"},
                                     .engine = engine});
    std::vector<std::vector<int32_t>> read;
    data::Buffer room;
    SampleFields fields;
    for (uint64_t i = 0; i < source->sample_count(); ++i) {
      ASSERT_TRUE(source->format()->split(*source->read(SampleId{i}, room), fields).ok());
      const data::ArrayView& array = fields.list()[0].array;
      ASSERT_EQ(array.type, ElementType::kI32);
      read.emplace_back(array.shape.element_count());
      if (!array.bytes.empty()) {
        std::memcpy(read.back().data(), array.bytes.data(), array.bytes.size());
      }
    }
    if (window == 0) {
      EXPECT_EQ(read, documents);
    } else {
      EXPECT_THAT(read, ElementsAre(ElementsAre(1, 2, 3, 4), ElementsAre(4, 5, 6, 7)));
    }
  }
}

TEST(Megatron, TheWriterRefusesWhatMegatronHasNoCodeFor) {
  io::MemoryEngine engine;
  const auto writer = *(*open_format("megatron"))->create(engine, "t.bin");
  const uint32_t token = 1;
  const Field wide = {.name = "tokens",
                      .array = {ElementType::kU32, {1}, std::as_bytes(std::span(&token, 1))}};
  EXPECT_THAT(writer->add("k", std::span(&wide, 1)).error().message(),
              HasSubstr("has uint32, which Megatron has no code for"));
}

}  // namespace
}  // namespace millrace::format
