#include "format/fields_decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

namespace millrace::format {
namespace {

using data::ElementType;
using data::FieldSpec;
using data::Shape;
using ::testing::HasSubstr;

ByteView bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

// "name=text,name=text": the fields are texts; a name that ends in # holds four floats.
class TextFormat final : public Format {
 public:
  std::string_view name() const override { return "text"; }
  bool is_file_a_sample() const override { return true; }
  Result<data::FileSamples> index(io::Engine&, const std::filesystem::path&) const override {
    return data::FileSamples{};
  }
  Status split(ByteView sample, Fields& fields) const override {
    fields.clear();
    std::string_view rest(reinterpret_cast<const char*>(sample.data()), sample.size());
    while (!rest.empty()) {
      const std::string_view entry = rest.substr(0, rest.find(','));
      rest.remove_prefix(std::min(entry.size() + 1, rest.size()));
      const size_t equals = entry.find('=');
      if (equals == entry.npos) return fail(Errc::kCorrupt, "'{}' has no =", entry);
      Field field = bytes_field(entry.substr(0, equals), bytes_of(entry.substr(equals + 1)));
      if (field.name.ends_with('#')) field.array = {ElementType::kF32, {2, 2}, field.array.bytes};
      fields.add(field);
    }
    return {};
  }
  Result<std::unique_ptr<SampleWriter>> create(io::Engine&,
                                               const std::filesystem::path&) const override {
    return fail(Errc::kUnsupported, "is not written");
  }
};

Result<std::unique_ptr<FieldsDecoder>> decoder_of(std::vector<FieldWish> wishes,
                                                  std::string_view first) {
  return FieldsDecoder::create(std::make_shared<TextFormat>(), std::move(wishes), bytes_of(first));
}

struct Decoded {
  std::vector<std::string> outputs;
  Status status;
};

Decoded decode(const data::Decoder& decoder, std::string_view sample) {
  Decoded decoded;
  for (const FieldSpec& spec : decoder.fields()) {
    decoded.outputs.emplace_back(spec.size_bytes(), '\0');
  }
  std::vector<MutableByteView> views;
  for (std::string& output : decoded.outputs) {
    views.emplace_back(reinterpret_cast<std::byte*>(output.data()), output.size());
  }
  const auto scratch = decoder.make_scratch();
  decoded.status = decoder.decode(bytes_of(sample), {}, views, scratch.get());
  return decoded;
}

TEST(FieldsDecoder, WithoutWishesAllFieldsOfTheFirstSampleAreTaken) {
  const auto decoder = decoder_of({}, "a=xyz,b#=0123456789abcdef");
  ASSERT_TRUE(decoder.ok()) << decoder.error().message();
  const std::vector<FieldSpec> expected = {{"a", ElementType::kU8, {3}},
                                           {"b#", ElementType::kF32, {2, 2}}};
  EXPECT_EQ((*decoder)->fields(), expected);
  const Decoded decoded = decode(**decoder, "b#=fedcba9876543210,a=uvw");
  ASSERT_TRUE(decoded.status.ok());
  EXPECT_EQ(decoded.outputs, (std::vector<std::string>{"uvw", "fedcba9876543210"}));
}

TEST(FieldsDecoder, AClassAsTextBecomesAnInteger) {
  const auto decoder = decoder_of({{.names = "cls", .type = ElementType::kI64}}, "cls=7");
  ASSERT_TRUE(decoder.ok()) << decoder.error().message();
  const Decoded decoded = decode(**decoder, "cls= -12\n");
  ASSERT_TRUE(decoded.status.ok()) << decoded.status.error().message();
  int64_t value = 0;
  std::memcpy(&value, decoded.outputs[0].data(), sizeof value);
  EXPECT_EQ(value, -12);
  for (const char* wrong : {"cls=", "cls=x", "cls=1 2", "cls=99999999999999999999"}) {
    EXPECT_FALSE(decode(**decoder, wrong).status.ok()) << wrong;
  }
}

TEST(FieldsDecoder, TheFirstNameThatIsThereIsTakenAndNamesTheOutput) {
  const auto decoder = decoder_of({{.names = "jpg;png"}}, "png=abc");
  ASSERT_TRUE(decoder.ok()) << decoder.error().message();
  EXPECT_EQ((*decoder)->fields()[0].name, "jpg");
  EXPECT_EQ(decode(**decoder, "jpg=xyz,png=abc").outputs[0], "xyz");
}

TEST(FieldsDecoder, BytesAreTakenAsTheElementsThatWereWished) {
  const auto decoder =
      decoder_of({{.names = "a", .type = ElementType::kU16, .shape = Shape{2}}}, "a=1234");
  ASSERT_TRUE(decoder.ok()) << decoder.error().message();
  EXPECT_EQ(decode(**decoder, "a=5678").outputs[0], "5678");
}

TEST(FieldsDecoder, ASampleThatIsNotLikeTheFirstIsAnErrorThatSaysHow) {
  const auto decoder = decoder_of({}, "a=xyz");
  ASSERT_TRUE(decoder.ok());
  EXPECT_THAT(decode(**decoder, "a=xy").status.error().message(),
              HasSubstr("field 'a' is [2] of uint8, where [3] of uint8 is expected"));
  EXPECT_THAT(decode(**decoder, "b=xyz").status.error().message(),
              HasSubstr("has no field 'a'; it has 'b'"));
  EXPECT_THAT(decode(**decoder, "a").status.error().message(), HasSubstr("has no ="));
}

TEST(FieldsDecoder, AWishForWhatIsNotThereIsRefused) {
  const auto decoder = decoder_of({{.names = "c"}}, "a=1,b=2");
  ASSERT_FALSE(decoder.ok());
  EXPECT_THAT(decoder.error().message(), HasSubstr("it has 'a', 'b'"));
}

TEST(FieldsDecoder, AFieldMayHaveADecoderOfItsOwn) {
  auto inner = std::make_shared<ArrayDecoder>(FieldSpec{"", ElementType::kU8, {2}});
  const auto decoder = decoder_of({{.names = "a", .decoder = inner}, {.names = "b"}}, "a=12,b=3");
  ASSERT_TRUE(decoder.ok()) << decoder.error().message();
  EXPECT_EQ(decode(**decoder, "a=45,b=6").outputs, (std::vector<std::string>{"45", "6"}));
  EXPECT_THAT(decode(**decoder, "a=456,b=6").status.error().message(),
              HasSubstr("field 'a': has 3 bytes"));
}

TEST(ArrayDecoder, ASampleOfAnotherLengthIsAnError) {
  const ArrayDecoder decoder({"data", ElementType::kF32, {2}});
  EXPECT_TRUE(decoder.is_verbatim());
  EXPECT_EQ(decode(decoder, "01234567").outputs[0], "01234567");
  EXPECT_THAT(decode(decoder, "0123456").status.error().message(),
              HasSubstr("has 7 bytes, but [2] of float32 takes 8"));
}

}  // namespace
}  // namespace millrace::format
