#include "bench/generate/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace millrace::bench {
namespace {

using data::ElementType;
using testing::HasSubstr;

Workload of_format(std::string_view format, uint64_t samples = 1) {
  Workload workload;
  workload.dataset.format = *named<DatasetFormat>(format);
  workload.dataset.record_length_bytes = 10'000;
  workload.dataset.num_samples_per_file = samples;
  return workload;
}

struct Sample {
  Layout layout;
  Content content;
  std::vector<std::byte> bytes;

  explicit Sample(const Workload& workload, const SampleRef& sample)
      : layout(*Layout::of(workload)), content(workload.dataset) {
    const ContentArray record = record_of(layout, sample);
    bytes.resize(static_cast<size_t>(record.size_bytes()));
    content.fill(record, 0, bytes);
  }
};

data::ArrayView view_of(const std::vector<std::byte>& bytes) {
  return {.type = ElementType::kU8, .shape = {bytes.size()}, .bytes = bytes};
}

TEST(Verify, AcceptsWhatWasGeneratedAndItsChecksum) {
  const SampleRef sample{.file = {.index = 3}, .sample = 2};
  const Sample made(of_format("tfrecord", 4), sample);
  EXPECT_TRUE(verify_sample(made.layout, made.content, sample, view_of(made.bytes)).ok());
}

TEST(Verify, SaysWhichByteDiffers) {
  const SampleRef sample{.file = {.index = 3}, .sample = 2};
  Sample made(of_format("tfrecord", 4), sample);
  made.bytes[7777] ^= std::byte{0xff};
  const Status status = verify_sample(made.layout, made.content, sample, view_of(made.bytes));
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code(), Errc::kCorrupt);
  EXPECT_THAT(status.error().message(), HasSubstr("sample 2 of train file 3: its byte 7777 is "));
}

TEST(Verify, NoticesAnotherSampleAndAnotherLength) {
  const SampleRef sample{.file = {.index = 3}, .sample = 2};
  const Sample made(of_format("tfrecord", 4), sample);
  const auto check = [&](const SampleRef& claimed, ByteView bytes) {
    return verify_sample(made.layout, made.content, claimed,
                         {.type = ElementType::kU8, .shape = {bytes.size()}, .bytes = bytes});
  };
  EXPECT_FALSE(check({.file = {.index = 3}, .sample = 1}, made.bytes).ok());
  EXPECT_FALSE(check({.file = {.split = Split::kEval, .index = 3}, .sample = 2}, made.bytes).ok());
  const Status shorter = check(sample, ByteView(made.bytes).first(9999));
  ASSERT_FALSE(shorter.ok());
  EXPECT_THAT(shorter.error().message(), HasSubstr("it has 9999 bytes"));
}

TEST(Verify, ComparesNumbersOfTextFormatsByValue) {
  const Workload workload = of_format("csv");
  const Sample made(workload, {});
  std::vector<int64_t> numbers;
  for (const std::byte byte : made.bytes) numbers.push_back(std::to_integer<int64_t>(byte));
  const auto verifier = *Verifier::of(workload);
  format::Field field{.name = "data",
                      .array = {.type = ElementType::kI64,
                                .shape = {numbers.size()},
                                .bytes = std::as_bytes(std::span(numbers))}};
  EXPECT_TRUE(verifier.verify({}, std::span(&field, 1)).ok());
  ++numbers[5000];
  const Status status = verifier.verify({}, std::span(&field, 1));
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message(), HasSubstr("its number 5000 is "));
}

TEST(Verify, RefusesASampleWithoutGeneratedFields) {
  const auto verifier = *Verifier::of(of_format("npz"));
  const format::Field field = format::bytes_field("other", {});
  const Status status = verifier.verify({}, std::span(&field, 1));
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message(), HasSubstr("expected 'x'"));
}

}  // namespace
}  // namespace millrace::bench
