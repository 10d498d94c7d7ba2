#include "format/images/box_decoder.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "data/decoded_sample.h"

namespace millrace::format {
namespace {

using data::ElementType;
using testing::ElementsAre;
using testing::HasSubstr;

const image::Framing kWhole{
    .image = {100, 100}, .crop = image::whole_image({100, 100}), .target = {50, 50}};

struct Decoded {
  std::string error;
  std::vector<float> numbers;
  BoxDecoder::Kept kept;
};

template <typename T>
Decoded decode(ElementType type, data::Shape shape, const std::vector<T>& values) {
  const auto decoder = *BoxDecoder::create({}, {});
  data::DecodedSample sample({decoder->field()});
  const Field field{
      .name = "boxes",
      .array = {.type = type, .shape = shape, .bytes = std::as_bytes(std::span(values))}};
  Decoded decoded;
  const Status status = decoder->decode(field, kWhole, sample.outputs()[0], decoded.kept);
  if (!status.ok()) decoded.error = status.error().message();
  decoded.numbers.resize(sample.bytes(0).size() / sizeof(float));
  if (!decoded.numbers.empty()) {
    std::memcpy(decoded.numbers.data(), sample.bytes(0).data(), sample.bytes(0).size());
  }
  return decoded;
}

TEST(BoxDecoder, ReadsTablesAndListsOfAnyNumbers) {
  EXPECT_THAT(decode<float>(ElementType::kF32, {1, 4}, {10, 20, 30, 40}).numbers,
              ElementsAre(5, 10, 15, 20));
  EXPECT_THAT(decode<double>(ElementType::kF64, {4}, {10, 20, 30, 40}).numbers,
              ElementsAre(5, 10, 15, 20));
  EXPECT_THAT(decode<int32_t>(ElementType::kI32, {1, 4}, {10, 20, 30, 40}).numbers,
              ElementsAre(5, 10, 15, 20));
}

TEST(BoxDecoder, RemembersWhichBoxesItKept) {
  const auto decoded = decode<float>(ElementType::kF32, {3, 4},
                                     {10, 20, 30, 40, 200, 200, 300, 300, 0, 0, 100, 100});
  EXPECT_THAT(decoded.numbers, ElementsAre(5, 10, 15, 20, 0, 0, 50, 50));
  EXPECT_THAT(decoded.kept.indexes, ElementsAre(0, 2));
  EXPECT_EQ(decoded.kept.count, 3u);
}

TEST(BoxDecoder, AnImageWithoutBoxesHasNone) {
  for (const data::Shape& shape : {data::Shape{0}, data::Shape{0, 4}, data::Shape{0, 0}}) {
    const auto decoded = decode<float>(ElementType::kF32, shape, {});
    EXPECT_EQ(decoded.error, "");
    EXPECT_EQ(decoded.kept.count, 0u);
  }
}

TEST(BoxDecoder, RefusesWhatIsNotBoxes) {
  EXPECT_EQ(decode<float>(ElementType::kF32, {2, 3}, std::vector<float>(6)).error,
            "boxes are [count, 4], but this is [2, 3] of float32");
  EXPECT_EQ(decode<float>(ElementType::kF32, {5}, std::vector<float>(5)).error,
            "boxes are [count, 4], but this is [5] of float32");
  EXPECT_EQ(decode<uint16_t>(ElementType::kF16, {1, 4}, std::vector<uint16_t>(4)).error,
            "boxes must be float32, float64 or integers, not float16");
  EXPECT_EQ(decode<float>(ElementType::kF32, {1, 4}, {0, NAN, 1, 1}).error,
            "box 0 has a number that is not finite");
}

TEST(BoxDecoder, RefusesImpossibleMinimums) {
  EXPECT_FALSE(BoxDecoder::create({.side_min = -1}, {}).ok());
  EXPECT_FALSE(BoxDecoder::create({.area_min = NAN}, {}).ok());
}

}  // namespace
}  // namespace millrace::format
