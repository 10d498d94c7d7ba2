#include "bench/generate/content.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "base/hash/crc32c.h"

namespace millrace::bench {
namespace {

using data::ElementType;
using data::Shape;

Content content_of(std::string_view kind, uint64_t seed = 0) {
  DatasetConfig dataset;
  dataset.content = *named<ContentKind>(kind);
  dataset.seed = seed;
  return Content(dataset);
}

std::vector<std::byte> filled(const Content& content, const ContentArray& array) {
  std::vector<std::byte> bytes(static_cast<size_t>(array.size_bytes()));
  content.fill(array, 0, bytes);
  return bytes;
}

uint32_t checksum_of(const Content& content, const ContentArray& array) {
  return crc32c(filled(content, array));
}

class ContentKinds : public testing::TestWithParam<std::string> {};

TEST_P(ContentKinds, GiveTheSameBytesInPartsAndAtOnce) {
  const Content content = content_of(GetParam());
  for (const ElementType type : {ElementType::kU8, ElementType::kI16, ElementType::kF16,
                                 ElementType::kBf16, ElementType::kF32, ElementType::kF64}) {
    const ContentArray array{.type = type, .shape = {37, 53, 3}};
    const auto whole = filled(content, array);
    std::vector<std::byte> parts(whole.size());
    for (size_t at = 0; at < parts.size(); at += 192) {
      content.fill(array, at,
                   std::span(parts).subspan(at, std::min<size_t>(192, parts.size() - at)));
    }
    EXPECT_EQ(parts, whole) << data::element_name(type);
  }
}

INSTANTIATE_TEST_SUITE_P(All, ContentKinds,
                         testing::Values("random", "photo", "physics", "text", "zero"),
                         [](const auto& tried) { return tried.param; });

TEST(Content, DiffersBetweenSeedsSplitsFilesSamplesAndFields) {
  const ContentArray array{.shape = {1000}};
  ContentArray eval = array;
  eval.sample.file.split = Split::kEval;
  ContentArray file = array;
  file.sample.file.index = 1;
  ContentArray sample = array;
  sample.sample.sample = 1;
  ContentArray field = array;
  field.field = 1;
  const Content content = content_of("random");
  std::set<uint32_t> checksums = {checksum_of(content_of("random", 1), array)};
  for (const ContentArray& each : {array, eval, file, sample, field}) {
    checksums.insert(checksum_of(content, each));
  }
  EXPECT_EQ(checksums.size(), 6u);
}

// These numbers must not change: they tell whether a dataset on a disk is what it claims to be.
TEST(Content, IsTheSameForever) {
  const ContentArray bytes{.sample = {.file = {.index = 7}, .sample = 3}, .shape = {100, 100}};
  const ContentArray floats{.type = ElementType::kF32, .shape = {100, 100}};
  EXPECT_EQ(checksum_of(content_of("random"), bytes), 1701116841u);
  EXPECT_EQ(checksum_of(content_of("photo"), bytes), 2296439109u);
  EXPECT_EQ(checksum_of(content_of("physics"), floats), 109270781u);
  EXPECT_EQ(checksum_of(content_of("random"), floats), 487003683u);
  EXPECT_EQ(checksum_of(content_of("text"), bytes), 715083560u);
}

TEST(Content, RandomBytesTakeAllValuesAboutEquallyOften) {
  const auto bytes = filled(content_of("random"), {.shape = {1 << 18}});
  std::vector<int> counts(256);
  for (const std::byte byte : bytes) ++counts[std::to_integer<size_t>(byte)];
  // 1024 each on average, with a standard deviation of 32.
  EXPECT_THAT(counts, testing::Each(testing::AllOf(testing::Gt(1024 - 200), testing::Lt(1224))));
}

TEST(Content, RandomFloatsAreInTheUnitInterval) {
  const auto bytes = filled(content_of("random"), {.type = ElementType::kF32, .shape = {10000}});
  double sum = 0;
  for (size_t i = 0; i < 10000; ++i) {
    float number = 0;
    std::memcpy(&number, bytes.data() + i * sizeof(number), sizeof(number));
    ASSERT_GE(number, 0.0f);
    ASSERT_LT(number, 1.0f);
    sum += number;
  }
  EXPECT_NEAR(sum / 10000, 0.5, 0.02);
}

TEST(Content, NeighboursInAPhotoAreSimilar) {
  const auto bytes = filled(content_of("photo"), {.shape = {256, 256}});
  double steps = 0;
  std::set<int> levels;
  for (size_t i = 1; i < bytes.size(); ++i) {
    levels.insert(std::to_integer<int>(bytes[i]));
    if (i % 256 != 0) {
      steps += std::abs(std::to_integer<int>(bytes[i]) - std::to_integer<int>(bytes[i - 1]));
    }
  }
  EXPECT_LT(steps / static_cast<double>(bytes.size()), 8);
  EXPECT_GT(levels.size(), 100u);
}

TEST(Content, TextIsWords) {
  const auto bytes = filled(content_of("text"), {.shape = {1000}});
  EXPECT_THAT(std::string(text_of(bytes)), testing::MatchesRegex("[a-z ]+"));
}

}  // namespace
}  // namespace millrace::bench
