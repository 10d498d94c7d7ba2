#include "format/packed_fields.h"

#include <gmock/gmock.h>

#include <cstring>

#include "format/arrays/array_decoder.h"
#include "format/formats.h"

namespace millrace::format {
namespace {

using data::ElementType;
using testing::HasSubstr;

struct Row {
  uint8_t flag = 0;
  float x = 0;
  int64_t id = 0;
  std::vector<float> image;
};

template <typename T>
ByteView bytes_in(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

ByteView packed(const Row& row, data::Buffer& room) {
  const std::vector<Field> fields = {
      {.name = "flag", .array = {ElementType::kU8, {}, bytes_in(row.flag)}},
      {.name = "x", .array = {ElementType::kF32, {}, bytes_in(row.x)}},
      {.name = "id", .array = {ElementType::kI64, {}, bytes_in(row.id)}},
      {.name = "image",
       .array = {ElementType::kF32, {row.image.size()}, std::as_bytes(std::span(row.image))}},
  };
  return pack_fields(fields, room);
}

template <typename T>
T number(const SampleFields& fields, std::string_view name) {
  T value{};
  const ByteView bytes = fields.find(name)->array.bytes;
  EXPECT_EQ(bytes.size(), sizeof(T)) << name;
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

TEST(PackedFields, NumbersAreCloseTogetherAndArraysAreAligned) {
  data::Buffer room;
  const ByteView sample =
      packed({.flag = 1, .x = 2, .id = 3, .image = std::vector<float>(32)}, room);
  SampleFields fields;
  ASSERT_TRUE(split_packed(sample, fields).ok());
  const auto offset = [&](std::string_view name) {
    return fields.find(name)->array.bytes.data() - sample.data();
  };
  EXPECT_EQ(offset("flag") % 64, 0);
  EXPECT_EQ(offset("x"), offset("flag") + 4);
  EXPECT_EQ(offset("id"), offset("x") + 4);
  EXPECT_EQ(offset("image") % 64, 0);
}

TEST(PackedFields, SplittingOneSampleAfterAnotherIsLikeSplittingEachAlone) {
  const std::vector<Row> rows = {{.flag = 1, .x = 0.5f, .id = 10, .image = {1, 2}},
                                 {.flag = 2, .x = 1.5f, .id = 11, .image = {3, 4}},
                                 {.flag = 3, .x = 2.5f, .id = 12, .image = {5}},
                                 {.flag = 4, .x = 3.5f, .id = 13, .image = {6, 7}},
                                 {.flag = 5, .x = 4.5f, .id = 14, .image = {8, 9}}};
  SampleFields fields;
  std::vector<bool> repeated;
  for (const Row& row : rows) {
    data::Buffer room;  // another address each time, and the one before is freed
    ASSERT_TRUE(split_packed(packed(row, room), fields).ok());
    repeated.push_back(fields.is_repeated());
    EXPECT_EQ(fields.names(), "'flag', 'x', 'id', 'image'");
    EXPECT_EQ(number<uint8_t>(fields, "flag"), row.flag);
    EXPECT_EQ(number<float>(fields, "x"), row.x);
    EXPECT_EQ(number<int64_t>(fields, "id"), row.id);
    EXPECT_EQ(fields.find("image")->array.shape, data::Shape{row.image.size()});
    EXPECT_EQ(std::memcmp(fields.find("image")->array.bytes.data(), row.image.data(),
                          row.image.size() * sizeof(float)),
              0);
  }
  EXPECT_THAT(repeated, testing::ElementsAre(false, true, false, false, true));
}

TEST(PackedFields, ACutSampleFailsEvenAfterAWholeOne) {
  data::Buffer room;
  const ByteView sample = packed({.image = {1, 2}}, room);
  SampleFields fields;
  for (size_t length = 0; length < sample.size(); ++length) {
    ASSERT_TRUE(split_packed(sample, fields).ok());
    EXPECT_FALSE(split_packed(sample.first(length), fields).ok()) << length;
    EXPECT_FALSE(fields.is_repeated());
  }
}

TEST(PackedFields, DecodeIntoABatchWhetherOrNotTheyRepeat) {
  const std::shared_ptr<const Format> format = make_parquet({});
  data::Buffer room;
  const auto choices = describe_sample(*format, packed({.image = {0, 0}}, room));
  ASSERT_TRUE(choices.ok());
  const auto decoder = make_field_decoder(format, {(*choices)[2], (*choices)[1]});
  ASSERT_TRUE(decoder.ok());
  const auto scratch = (*decoder)->make_scratch();
  // The shape of a field that is not chosen may differ.
  for (const size_t length : {2, 2, 3, 3, 2}) {
    const Row row{.x = static_cast<float>(length), .id = 7, .image = std::vector<float>(length)};
    int64_t id = 0;
    float x = 0;
    const std::vector<data::Output> outputs = {std::as_writable_bytes(std::span(&id, 1)),
                                               std::as_writable_bytes(std::span(&x, 1))};
    ASSERT_TRUE((*decoder)->decode(packed(row, room), {}, outputs, scratch.get()).ok());
    EXPECT_EQ(id, row.id);
    EXPECT_EQ(x, row.x);
  }
}

TEST(PackedFields, ADecoderNamesTheFieldThatDoesNotFitAfterOthersDid) {
  const std::shared_ptr<const Format> format = make_parquet({});
  data::Buffer room;
  const auto choices = describe_sample(*format, packed({.image = {0, 0}}, room));
  const auto decoder = make_field_decoder(format, {(*choices)[3]});
  const auto scratch = (*decoder)->make_scratch();
  std::vector<float> image(2);
  const std::vector<data::Output> outputs = {std::as_writable_bytes(std::span(image))};
  ASSERT_TRUE((*decoder)->decode(packed({.image = {1, 2}}, room), {}, outputs, scratch.get()).ok());
  ASSERT_TRUE((*decoder)->decode(packed({.image = {3, 4}}, room), {}, outputs, scratch.get()).ok());
  EXPECT_EQ(image, (std::vector<float>{3, 4}));
  const Status refused =
      (*decoder)->decode(packed({.image = {1, 2, 3}}, room), {}, outputs, scratch.get());
  EXPECT_THAT(refused.error().message(), HasSubstr("'image' is [3] of float32, but [2]"));
}

}  // namespace
}  // namespace millrace::format
