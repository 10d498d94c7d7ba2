#include "format/arrays/array_decoder.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>

#include "data/decoded_sample.h"
#include "format/arrays/npy.h"
#include "format/images/image_decoder.h"
#include "format/images/png.h"
#include "format/records/tfrecord.h"
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
  std::vector<data::Output> places;
  outputs.clear();
  for (const FieldSpec& field : decoder.fields()) outputs.emplace_back(field.size_bytes(), '#');
  for (std::string& output : outputs)
    places.emplace_back(std::as_writable_bytes(std::span(output)));
  const auto scratch = decoder.make_scratch();
  const Status status = decoder.decode(bytes_of(sample), {}, places, scratch.get());
  return status.ok() ? "" : status.error().message();
}

template <typename T>
std::vector<T> values_of(const std::string& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
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
  const auto decoder = *make_field_decoder(npy, *choices);
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
  const auto decoder = *make_field_decoder(npz, choices);
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
  const auto decoder = *make_field_decoder(
      tfrecord,
      {{.from = "scale", .spec = {.name = "scale", .type = ElementType::kF32, .shape = {2, 2}}},
       {.from = "label", .spec = {.name = "label", .type = ElementType::kI64, .shape = {}}},
       {.from = "pixels", .spec = {.name = "image", .type = ElementType::kU16, .shape = {3}}}});
  std::vector<std::string> outputs;
  EXPECT_EQ(decode(*decoder, sample, outputs), "");
  EXPECT_EQ(values_of<float>(outputs[0]), scale);
  EXPECT_EQ(values_of<int64_t>(outputs[1]), label);
  EXPECT_EQ(outputs[2], pixels);
  const auto wrong = *make_field_decoder(
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
  const auto decoder = *make_field_decoder(tar, *describe_sample(*tar, bytes_of(sample)));
  EXPECT_EQ(decoder->fields()[1],
            (FieldSpec{.name = "cls", .type = ElementType::kI64, .shape = {}}));
  std::vector<std::string> outputs;
  EXPECT_EQ(decode(*decoder, sample, outputs), "");
  EXPECT_EQ(values_of<float>(outputs[0]), values);
  EXPECT_EQ(values_of<int64_t>(outputs[1]), (std::vector<int64_t>{42}));
}

TEST(FieldDecoder, RefusesAClassThatIsNotANumberOrDoesNotFit) {
  const std::shared_ptr<const Format> tar = *open_format("tar");
  const auto decoder = *make_field_decoder(
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
  const auto decoder = *make_field_decoder(
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

// ---- ragged fields ----

FieldSpec ragged(std::string name, ElementType type, data::Shape item = {}) {
  return {.name = std::move(name), .type = type, .shape = item, .ragged = data::Ragged{}};
}

// Decodes into memory of its own. Returns the error, or an empty string.
std::string decode_into(data::DecodedSample& sample, const data::Decoder& decoder,
                        std::string_view bytes, uint64_t epoch = 0) {
  const auto scratch = decoder.make_scratch();
  const Status status = decoder.decode(bytes_of(bytes), {.epoch = data::Epoch{epoch}},
                                       sample.outputs(), scratch.get());
  return status.ok() ? "" : status.error().message();
}

TEST(RawDecoder, TakesSamplesOfAnyWholeNumberOfItems) {
  const auto decoder = make_raw_decoder(ragged("x", ElementType::kU16, {2}));
  EXPECT_FALSE(decoder->is_verbatim());
  data::DecodedSample sample(decoder->fields());
  EXPECT_EQ(decode_into(sample, *decoder, "abcdefgh"), "");
  EXPECT_EQ(text_of(sample.bytes(0)), "abcdefgh");
  EXPECT_EQ(sample.length(0), 2u);
  EXPECT_EQ(decode_into(sample, *decoder, ""), "");
  EXPECT_EQ(sample.length(0), 0u);
  EXPECT_EQ(decode_into(sample, *decoder, "abc"),
            "'x' is [3] of uint8, but [any, 2] of uint16 is expected");
}

TEST(FieldDecoder, RaggedFieldsOfAnNpzHaveAnyFirstLength) {
  const std::shared_ptr<const Format> npz = *open_format("npz");
  const auto decoder = *make_field_decoder(
      npz, {{.from = "points", .spec = ragged("points", ElementType::kF32, {3})}});
  for (const uint64_t count : {0, 1, 5}) {
    std::vector<float> values(count * 3, 2.5F);
    const auto field = array_field("points", ElementType::kF32, {count, 3}, values);
    data::DecodedSample sample(decoder->fields());
    EXPECT_EQ(decode_into(sample, *decoder, sample_of(*npz, std::span(&field, 1))), "");
    EXPECT_EQ(sample.length(0), count);
    EXPECT_EQ(values_of<float>(std::string(text_of(sample.bytes(0)))), values);
  }
  const std::vector<double> no_values;
  const auto empty = array_field("points", ElementType::kF64, {0}, no_values);
  data::DecodedSample none(decoder->fields());
  EXPECT_EQ(decode_into(none, *decoder, sample_of(*npz, std::span(&empty, 1))), "");
  EXPECT_EQ(none.length(0), 0u);
  const std::vector<float> pairs(4);
  const auto wrong = array_field("points", ElementType::kF32, {2, 2}, pairs);
  data::DecodedSample sample(decoder->fields());
  EXPECT_EQ(decode_into(sample, *decoder, sample_of(*npz, std::span(&wrong, 1))),
            "'points' is [2, 2] of float32, but [any, 3] of float32 is expected");
}

TEST(FieldDecoder, RaggedListsOfATfrecordAreItemsAndMayBeMissing) {
  const std::shared_ptr<const Format> format = *open_format("tfrecord");
  const auto decoder =
      *make_field_decoder(format, {{.from = "ids", .spec = ragged("ids", ElementType::kI64)},
                                   {.from = "box", .spec = ragged("box", ElementType::kF32, {4})},
                                   {.from = "text", .spec = ragged("text", ElementType::kU8)}});
  const std::vector<int64_t> ids{3, -1, 4};
  const std::vector<float> box{1, 2, 3, 4, 5, 6, 7, 8};
  const std::string text = "caf\xc3\xa9";
  const Field fields[] = {array_field("ids", ElementType::kI64, {3}, ids),
                          array_field("box", ElementType::kF32, {8}, box),
                          bytes_field("text", bytes_of(text))};
  data::DecodedSample sample(decoder->fields());
  EXPECT_EQ(decode_into(sample, *decoder, sample_of(*format, fields)), "");
  EXPECT_EQ(values_of<int64_t>(std::string(text_of(sample.bytes(0)))), ids);
  EXPECT_EQ(sample.length(1), 2u);
  EXPECT_EQ(text_of(sample.bytes(2)), text);
  EXPECT_EQ(decode_into(sample, *decoder, sample_of(*format, std::span(fields, 1))), "");
  EXPECT_EQ(sample.length(1), 0u);
  const std::vector<float> seven(7);
  const Field odd[] = {array_field("box", ElementType::kF32, {7}, seven)};
  EXPECT_EQ(decode_into(sample, *decoder, sample_of(*format, odd)),
            "'box' is [7] of float32, but [any, 4] of float32 is expected");
}

TEST(FieldDecoder, ATarsTextIsRaggedBytesEvenIfItIsANumber) {
  const std::shared_ptr<const Format> tar = *open_format("tar");
  const auto decoder =
      *make_field_decoder(tar, {{.from = "txt", .spec = ragged("txt", ElementType::kU8)}});
  data::DecodedSample sample(decoder->fields());
  for (const std::string text : {"7", "", "a longer text"}) {
    const Field field = bytes_field("txt", bytes_of(text));
    EXPECT_EQ(decode_into(sample, *decoder, sample_of(*tar, std::span(&field, 1))), "");
    EXPECT_EQ(text_of(sample.bytes(0)), text);
  }
  const Field other = bytes_field("json", bytes_of("{}"));
  EXPECT_EQ(decode_into(sample, *decoder, sample_of(*tar, std::span(&other, 1))),
            "the sample has no 'txt'; it has 'json'");
}

#ifdef MILLRACE_HAVE_PNG

// An image of 40 x 30, its mask (1 on the right half), a box around that half, one outside, and a
// class for each box.
struct Detection {
  std::shared_ptr<const Format> npz = *open_format("npz");
  std::vector<std::byte> png;
  std::vector<uint8_t> mask = std::vector<uint8_t>(40 * 30);
  std::vector<float> boxes{20, 0, 40, 30, 500, 500, 600, 600};
  std::vector<int64_t> classes{7, 8};

  Detection() {
    image::Pixels pixels({40, 30});
    for (uint32_t y = 0; y < 30; ++y) {
      for (uint32_t x = 20; x < 40; ++x) {
        pixels.bytes[(y * 40 + x) * 3] = 255;
        mask[y * 40 + x] = 1;
      }
    }
    png = *write_png(pixels.view());
  }

  std::vector<FieldChoice> choices() const {
    const std::shared_ptr<const ImageDecoder> image =
        *ImageDecoder::create({.size = {16, 16},
                               .transform = ImageTransform::kRandomResizedCrop,
                               .flip_probability = .5});
    const std::shared_ptr<const MaskDecoder> follower = *MaskDecoder::create({.size = {16, 16}});
    const std::shared_ptr<const BoxDecoder> framed = *BoxDecoder::create({}, {});
    return {{.from = "classes", .spec = ragged("classes", ElementType::kI64), .follows = "boxes"},
            {.from = "mask", .spec = follower->field(), .mask = follower, .follows = "image"},
            {.from = "boxes", .spec = framed->field(), .boxes = framed, .follows = "image"},
            {.from = "image", .spec = image->fields()[0], .decoder = image}};
  }

  std::string bytes() const {
    const Field fields[] = {array_field("classes", ElementType::kI64, {classes.size()}, classes),
                            array_field("mask", ElementType::kU8, {30, 40}, mask),
                            array_field("boxes", ElementType::kF32, {2, 4}, boxes),
                            bytes_field("image", png)};
    return sample_of(*npz, fields);
  }
};

TEST(FieldDecoder, MasksBoxesAndClassesFollowTheirImage) {
  const Detection detection;
  const auto decoder = *make_field_decoder(detection.npz, detection.choices());
  bool is_cut = false;
  bool is_missing = false;
  for (uint64_t epoch = 0; epoch < 50; ++epoch) {
    data::DecodedSample sample(decoder->fields());
    ASSERT_EQ(decode_into(sample, *decoder, detection.bytes(), epoch), "");
    const auto mask = values_of<uint8_t>(std::string(text_of(sample.bytes(1))));
    const auto boxes = values_of<float>(std::string(text_of(sample.bytes(2))));
    const auto classes = values_of<int64_t>(std::string(text_of(sample.bytes(0))));
    const auto red = values_of<uint8_t>(std::string(text_of(sample.bytes(3).first(256))));
    ASSERT_EQ(classes.size() * 4, boxes.size());
    is_missing |= boxes.empty();
    if (boxes.empty()) continue;
    EXPECT_EQ(classes, std::vector<int64_t>{7});
    is_cut |= boxes[0] > 0 || boxes[2] < 16;
    for (size_t i = 0; i < 256; ++i) {
      const float centre = static_cast<float>(i % 16) + 0.5F;
      // Resampled pixels at the edge are a blend.
      if (std::abs(centre - boxes[0]) < 1.5F || std::abs(centre - boxes[2]) < 1.5F) continue;
      const bool is_inside = centre > boxes[0] && centre < boxes[2];
      EXPECT_EQ(mask[i], is_inside ? 1 : 0) << i << " in epoch " << epoch;
      EXPECT_NEAR(red[i], is_inside ? 255 : 0, 40) << i << " in epoch " << epoch;
    }
  }
  EXPECT_TRUE(is_cut);
  EXPECT_TRUE(is_missing);
}

TEST(FieldDecoder, AFollowerNamesItsFieldInErrors) {
  Detection detection;
  const auto decoder = *make_field_decoder(detection.npz, detection.choices());
  data::DecodedSample sample(decoder->fields());
  detection.classes = {1, 2, 3};
  EXPECT_EQ(decode_into(sample, *decoder, detection.bytes()),
            "'classes' has 3 items, but there are 2 boxes in 'boxes'");
  detection.boxes = {NAN, 0, 0, 0, 0, 0, 0, 0};
  EXPECT_EQ(decode_into(sample, *decoder, detection.bytes()),
            "boxes: box 0 has a number that is not finite");
}

TEST(FieldDecoder, AFieldCanFollowOnlyWhatFits) {
  const Detection detection;
  auto choices = detection.choices();
  choices[1].follows = "jpg";
  EXPECT_EQ(make_field_decoder(detection.npz, choices).error().message(),
            "'mask' follows 'jpg', which is not among the fields; add it to them");
  choices[1].follows = "boxes";
  EXPECT_EQ(make_field_decoder(detection.npz, choices).error().message(),
            "'mask' follows 'boxes', which is not an Image");
  choices = detection.choices();
  choices[0].follows = "mask";
  EXPECT_THAT(make_field_decoder(detection.npz, choices).error().message(),
              HasSubstr("only a ragged field can follow, and only Boxes"));
}

#endif

}  // namespace
}  // namespace millrace::format
