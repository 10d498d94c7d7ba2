#include "format/array_decoder.h"

#include <gmock/gmock.h>

#include <cstring>

#include "format/npy.h"
#include "format/tfrecord.h"
#include "io/testing/memory_engine.h"

namespace millrace::format {
namespace {

using data::ElementType;
using data::FieldSpec;
using testing::HasSubstr;

// The bytes of one sample, written by the format's own writer.
std::string sample_of(const Format& format, std::span<const Field> fields) {
  io::MemoryEngine engine;
  const auto writer = *format.create(engine, "x");
  EXPECT_TRUE(writer->add("key", fields).ok());
  EXPECT_TRUE(writer->finish().ok());
  const data::FileSamples samples = *format.index(engine, "x");
  const auto reader = *engine.open("x");
  std::string all(*reader->size_bytes(), '\0');
  EXPECT_TRUE(reader->read_at(0, std::as_writable_bytes(std::span(all))).ok());
  if (samples.kind != data::FileSamples::Kind::kListed) return all;
  return all.substr(samples.spans[0].offset_bytes, samples.spans[0].size_bytes);
}

template <typename T>
Field array_field(std::string_view name, ElementType type, data::Shape shape,
                  const std::vector<T>& values) {
  return {.name = name,
          .array = {.type = type, .shape = shape, .bytes = std::as_bytes(std::span(values))}};
}

// Decodes into memory of the right size. Returns the error, or an empty string.
std::string decode(const data::Decoder& decoder, std::string_view sample,
                   std::vector<std::string>& outputs) {
  std::vector<MutableByteView> places;
  outputs.clear();
  for (const FieldSpec& field : decoder.fields()) outputs.emplace_back(field.size_bytes(), '#');
  for (std::string& output : outputs) places.push_back(std::as_writable_bytes(std::span(output)));
  const auto scratch = decoder.make_scratch();
  const Status status = decoder.decode(bytes_of(sample), {}, places, scratch.get());
  return status.ok() ? "" : status.error().message();
}

template <typename T>
std::vector<T> values_of(const std::string& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

TEST(RawDecoder, IsVerbatimAndRefusesAnotherLength) {
  const auto decoder = make_raw_decoder({.name = "x", .type = ElementType::kU16, .shape = {2}});
  EXPECT_TRUE(decoder->is_verbatim());
  std::vector<std::string> outputs;
  EXPECT_EQ(decode(*decoder, "abcd", outputs), "");
  EXPECT_EQ(outputs[0], "abcd");
  EXPECT_EQ(decode(*decoder, "abc", outputs), "has 3 bytes, but [2] of uint16 takes 4");
}

TEST(FieldDecoder, RequiresTheShapeOfTheFirstNpy) {
  const std::shared_ptr<const Format> npy = *open_format("npy");
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  const Field first = array_field("data", ElementType::kF32, {2, 3}, values);
  const Field turned = array_field("data", ElementType::kF32, {3, 2}, values);
  const std::string sample = sample_of(*npy, std::span(&first, 1));
  const auto choices = describe_sample(*npy, bytes_of(sample));
  ASSERT_TRUE(choices.ok()) << choices.error().message();
  const auto decoder = make_field_decoder(npy, *choices);
  std::vector<std::string> outputs;
  EXPECT_EQ(decode(*decoder, sample, outputs), "");
  EXPECT_EQ(values_of<float>(outputs[0]), values);
  EXPECT_EQ(decode(*decoder, sample_of(*npy, std::span(&turned, 1)), outputs),
            "'data' is [3, 2] of float32, but [2, 3] of float32 is expected");
}

TEST(FieldDecoder, DecodesSeveralArraysOfAnNpz) {
  const std::shared_ptr<const Format> npz = *open_format("npz");
  const std::vector<int16_t> image = {1, -2};
  const std::vector<int64_t> label = {7};
  const Field fields[] = {array_field("image", ElementType::kI16, {1, 2}, image),
                          array_field("label", ElementType::kI64, {}, label)};
  const std::string sample = sample_of(*npz, fields);
  const auto choices = *describe_sample(*npz, bytes_of(sample));
  const auto decoder = make_field_decoder(npz, choices);
  ASSERT_EQ(decoder->fields().size(), 2u);
  EXPECT_EQ(decoder->fields()[0],
            (FieldSpec{.name = "image", .type = ElementType::kI16, .shape = {1, 2}}));
  std::vector<std::string> outputs;
  EXPECT_EQ(decode(*decoder, sample, outputs), "");
  EXPECT_EQ(values_of<int16_t>(outputs[0]), image);
  EXPECT_EQ(values_of<int64_t>(outputs[1]), label);
  EXPECT_EQ(decode(*decoder, sample_of(*npz, std::span(fields, 1)), outputs),
            "the sample has no 'label'; it has 'image'");
}

TEST(FieldDecoder, GivesTfrecordListsTheRequestedShape) {
  const std::shared_ptr<const Format> tfrecord = *open_format("tfrecord");
  const std::vector<float> scale = {1, 2, 3, 4};
  const std::vector<int64_t> label = {-3};
  const std::string pixels = "abcdef";
  const Field fields[] = {array_field("scale", ElementType::kF32, {4}, scale),
                          array_field("label", ElementType::kI64, {1}, label),
                          bytes_field("pixels", bytes_of(pixels))};
  const std::string sample = sample_of(*tfrecord, fields);
  const auto decoder = make_field_decoder(
      tfrecord,
      {{.from = "scale", .spec = {.name = "scale", .type = ElementType::kF32, .shape = {2, 2}}},
       {.from = "label", .spec = {.name = "label", .type = ElementType::kI64, .shape = {}}},
       {.from = "pixels", .spec = {.name = "image", .type = ElementType::kU16, .shape = {3}}}});
  std::vector<std::string> outputs;
  EXPECT_EQ(decode(*decoder, sample, outputs), "");
  EXPECT_EQ(values_of<float>(outputs[0]), scale);
  EXPECT_EQ(values_of<int64_t>(outputs[1]), label);
  EXPECT_EQ(outputs[2], pixels);
  const auto wrong = make_field_decoder(
      tfrecord,
      {{.from = "scale", .spec = {.name = "s", .type = ElementType::kF64, .shape = {2}}}});
  EXPECT_EQ(decode(*wrong, sample, outputs),
            "'scale' is [4] of float32, but [2] of float64 is expected");
}

TEST(FieldDecoder, DecodesArraysAndClassesOfATar) {
  const std::shared_ptr<const Format> tar = *open_format("tar");
  const std::vector<float> values = {1, 2};
  const std::string npy =
      *npy_header(ElementType::kF32, {2}) + std::string(text_of(std::as_bytes(std::span(values))));
  const Field fields[] = {bytes_field("npy", bytes_of(npy)), bytes_field("cls", bytes_of("42\n"))};
  const std::string sample = sample_of(*tar, fields);
  const auto decoder = make_field_decoder(tar, *describe_sample(*tar, bytes_of(sample)));
  EXPECT_EQ(decoder->fields()[1],
            (FieldSpec{.name = "cls", .type = ElementType::kI64, .shape = {}}));
  std::vector<std::string> outputs;
  EXPECT_EQ(decode(*decoder, sample, outputs), "");
  EXPECT_EQ(values_of<float>(outputs[0]), values);
  EXPECT_EQ(values_of<int64_t>(outputs[1]), (std::vector<int64_t>{42}));
}

TEST(FieldDecoder, RefusesAClassThatIsNotANumberOrDoesNotFit) {
  const std::shared_ptr<const Format> tar = *open_format("tar");
  const auto decoder = make_field_decoder(
      tar, {{.from = "class;cls", .spec = {.name = "y", .type = ElementType::kU8, .shape = {}}}});
  std::vector<std::string> outputs;
  for (const std::string_view text : {"cat", "", "300", "-1"}) {
    const Field field = bytes_field("cls", bytes_of(text));
    EXPECT_EQ(decode(*decoder, sample_of(*tar, std::span(&field, 1)), outputs),
              fmt::format("'cls' is '{}', but an integer that fits uint8 is expected", text));
  }
}

TEST(FieldDecoder, PassesFieldsToTheirOwnDecoders) {
  const auto format = *open_format("tar");
  const std::vector<Field> fields = {bytes_field("bin", bytes_of("ab")),
                                     bytes_field("cls", bytes_of("7"))};
  const std::string sample = sample_of(*format, fields);
  const FieldSpec pair{.name = "pair", .type = ElementType::kU8, .shape = {2}};
  const auto decoder = make_field_decoder(
      *open_format("tar"),
      {{.from = "bin", .spec = pair, .decoder = make_raw_decoder(pair)},
       {.from = "cls", .spec = {.name = "class", .type = ElementType::kI64, .shape = {}}}});
  std::vector<std::string> outputs;
  EXPECT_EQ(decode(*decoder, sample, outputs), "");
  EXPECT_EQ(outputs[0], "ab");
  EXPECT_EQ(values_of<int64_t>(outputs[1]), std::vector<int64_t>{7});

  const std::vector<Field> longer = {bytes_field("bin", bytes_of("abc")), fields[1]};
  EXPECT_THAT(decode(*decoder, sample_of(*format, longer), outputs),
              HasSubstr("bin: has 3 bytes, but [2] of uint8 takes 2"));
}

TEST(DecodeField, PassesOneFieldToAnotherDecoder) {
  const std::shared_ptr<const Format> tar = *open_format("tar");
  const Field fields[] = {bytes_field("png", bytes_of("abcd")), bytes_field("cls", bytes_of("1"))};
  const auto inner = make_raw_decoder({.name = "image", .type = ElementType::kU8, .shape = {4}});
  const auto decoder = decode_field(tar, "jpg;jpeg;png", inner);
  EXPECT_FALSE(decoder->is_verbatim());
  std::vector<std::string> outputs;
  EXPECT_EQ(decode(*decoder, sample_of(*tar, fields), outputs), "");
  EXPECT_EQ(outputs[0], "abcd");
  EXPECT_EQ(decode(*decoder, sample_of(*tar, std::span(fields).last(1)), outputs),
            "the sample has no 'jpg;jpeg;png'; it has 'cls'");
}

}  // namespace
}  // namespace millrace::format
