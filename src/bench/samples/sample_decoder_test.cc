#include "bench/samples/sample_decoder.h"

#include <gmock/gmock.h>

#include "base/bytes.h"

namespace millrace::bench {
namespace {

std::shared_ptr<const data::Decoder> decoder_of(const Workload& workload) {
  auto format = open_dataset_format(workload.dataset);
  EXPECT_TRUE(format.ok());
  auto made = make_sample_decoder(workload, {.format = *std::move(format)});
  EXPECT_TRUE(made.ok());
  return *made;
}

TEST(SampleDecoder, MakesRowsOfTheTransformedShapeAndType) {
  Workload workload;
  EXPECT_EQ(decoder_of(workload)->fields()[0].size_bytes(), 8);
  workload.dataset.record_length_bytes_resize = 100;
  EXPECT_EQ(decoder_of(workload)->fields()[0].size_bytes(), 100);
  workload.reader.transformed_record_dims = {4, 5, 3};
  workload.reader.transformed_record_element_type = data::ElementType::kF32;
  const data::FieldSpec row = decoder_of(workload)->fields()[0];
  EXPECT_EQ(row.size_bytes(), 240);
  EXPECT_EQ(row.type, data::ElementType::kF32);
  EXPECT_THAT(row.shape.lengths(), testing::ElementsAre(4, 5, 3));
}

TEST(SampleDecoder, WritesAllOfARowThatIsLongerThanTheSample) {
  Workload workload;
  workload.dataset.format = DatasetFormat::kRaw;
  workload.dataset.record_length_bytes = 3;
  workload.dataset.record_dims = {3};
  workload.reader.transformed_record_dims = {6};
  const auto decoder = decoder_of(workload);
  std::string row = "123456";
  const data::Output output{std::as_writable_bytes(std::span(row))};
  ASSERT_TRUE(
      decoder->decode(bytes_of("abc"), {}, {&output, 1}, decoder->make_scratch().get()).ok());
  EXPECT_EQ(row, std::string("abc\0\0\0", 6));
}

}  // namespace
}  // namespace millrace::bench
