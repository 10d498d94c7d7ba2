#include "format/images/mask_decoder.h"

#include <gmock/gmock.h>

#include <numeric>
#include <vector>

#include "format/images/png.h"

namespace millrace::format {
namespace {

using data::ElementType;
using testing::ElementsAre;
using testing::HasSubstr;

image::Framing whole(image::Size image, image::Size target, bool flip = false) {
  image::Framing framing{.image = image, .crop = image::whole_image(image), .target = target};
  framing.crop.flip = flip;
  return framing;
}

// Decodes, and returns the values or adds a failure.
template <typename T>
std::vector<T> decoded(const MaskDecoder& decoder, const Field& field,
                       const image::Framing& framing) {
  std::vector<T> values(size_t{framing.target.width} * framing.target.height);
  const auto scratch = decoder.make_scratch();
  const Status status =
      decoder.decode(field, framing, std::as_writable_bytes(std::span(values)), *scratch);
  if (!status.ok()) ADD_FAILURE() << status.error().message();
  return values;
}

std::string error_of(const MaskDecoder& decoder, const Field& field,
                     const image::Framing& framing) {
  std::vector<std::byte> out(decoder.field().size_bytes());
  const auto scratch = decoder.make_scratch();
  const Status status = decoder.decode(field, framing, out, *scratch);
  return status.ok() ? "" : status.error().message();
}

template <typename T>
Field array(ElementType type, data::Shape shape, const std::vector<T>& values) {
  return {.name = "mask",
          .array = {.type = type, .shape = shape, .bytes = std::as_bytes(std::span(values))}};
}

TEST(MaskDecoder, TakesTheNearestPixelOfAnArray) {
  const std::vector<uint8_t> values{1, 2, 3, 4,  //
                                    5, 6, 7, 8};
  const auto mask = array(ElementType::kU8, {2, 4}, values);
  const auto decoder = *MaskDecoder::create({.size = {2, 2}});
  EXPECT_THAT(decoded<uint8_t>(*decoder, mask, whole({4, 2}, {2, 2})), ElementsAre(2, 4, 6, 8));
  EXPECT_THAT(decoded<uint8_t>(*decoder, mask, whole({4, 2}, {2, 2}, true)),
              ElementsAre(4, 2, 8, 6));
  const auto wide = *MaskDecoder::create({.size = {2, 2}, .type = ElementType::kI64});
  EXPECT_THAT(decoded<int64_t>(*wide, mask, whole({4, 2}, {2, 2})), ElementsAre(2, 4, 6, 8));
}

TEST(MaskDecoder, RefusesAValueThatDoesNotFit) {
  const std::vector<int32_t> values{0, 300, -1, 255};
  const auto mask = array(ElementType::kI32, {2, 2}, values);
  const auto decoder = *MaskDecoder::create({.size = {2, 2}});
  EXPECT_THAT(error_of(*decoder, mask, whole({2, 2}, {2, 2})),
              HasSubstr("which uint8 cannot hold"));
  const auto wide = *MaskDecoder::create({.size = {2, 2}, .type = ElementType::kI64});
  EXPECT_THAT(decoded<int64_t>(*wide, mask, whole({2, 2}, {2, 2})), ElementsAre(0, 300, -1, 255));
}

TEST(MaskDecoder, RefusesAnotherSizeAndAnotherShape) {
  const std::vector<uint8_t> values(6);
  const auto decoder = *MaskDecoder::create({.size = {2, 2}});
  EXPECT_EQ(error_of(*decoder, array(ElementType::kU8, {2, 3}, values), whole({2, 3}, {2, 2})),
            "the mask has 3 x 2 pixels, but its image has 2 x 3; they must be equal");
  EXPECT_EQ(error_of(*decoder, array(ElementType::kU8, {6}, values), whole({2, 3}, {2, 2})),
            "a mask is a PNG or [height, width] of integers, but this is [6] of uint8");
  const std::vector<float> floats(4);
  EXPECT_THAT(error_of(*decoder, array(ElementType::kF32, {2, 2}, floats), whole({2, 2}, {2, 2})),
              HasSubstr("this is [2, 2] of float32"));
}

TEST(MaskDecoder, HoldsOnlyIntegers) {
  EXPECT_FALSE(MaskDecoder::create({.size = {2, 2}, .type = ElementType::kF32}).ok());
}

#ifdef MILLRACE_HAVE_PNG

TEST(MaskDecoder, RefusesAPngWithColours) {
  const image::Pixels pixels({2, 2});
  const auto png = *write_png(pixels.view());
  const auto decoder = *MaskDecoder::create({.size = {2, 2}});
  EXPECT_THAT(error_of(*decoder, bytes_field("png", png), whole({2, 2}, {2, 2})),
              HasSubstr("a mask has one value per pixel; save it as gray or with a palette"));
}

#endif

}  // namespace
}  // namespace millrace::format
