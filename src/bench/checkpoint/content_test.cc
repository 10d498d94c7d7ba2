#include "bench/checkpoint/content.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <vector>

#include "base/hash/crc32c.h"
#include "base/io/gzip.h"

namespace millrace::bench {
namespace {

std::vector<std::byte> bytes_from(const CheckpointContent& content, uint64_t offset, size_t size) {
  std::vector<std::byte> bytes(size);
  content.fill(offset, bytes);
  return bytes;
}

TEST(CheckpointContent, TheChecksumIsThatOfTheBytes) {
  for (const CheckpointContent& content :
       {CheckpointContent::random(7), CheckpointContent::ones(data::ElementType::kF16)}) {
    for (const size_t size : {0, 1, 8, 4095, 4096, 4097, 300'000, 1'048'576}) {
      const auto bytes = bytes_from(content, 0, size);
      EXPECT_EQ(content.checksum(ChecksumKind::kZip, size), zip_crc32(bytes)) << size;
      EXPECT_EQ(content.checksum(ChecksumKind::kCastagnoli, size), crc32c(bytes)) << size;
    }
  }
}

TEST(CheckpointContent, AnyPartIsThatOfTheWhole) {
  const CheckpointContent content = CheckpointContent::random(1);
  const auto whole = bytes_from(content, 0, 50'000);
  for (const size_t offset : {1, 4095, 4096, 5000, 12'288}) {
    for (const size_t size : {1, 100, 4096, 9000}) {
      const auto part = bytes_from(content, offset, size);
      EXPECT_EQ(std::memcmp(part.data(), whole.data() + offset, size), 0) << offset << " " << size;
    }
  }
}

TEST(CheckpointContent, ADifferenceIsFoundWhereverItIs) {
  for (const CheckpointContent& content :
       {CheckpointContent::random(1), CheckpointContent::ones(data::ElementType::kF32)}) {
    auto bytes = bytes_from(content, 100, 20'000);
    EXPECT_EQ(content.find_difference(100, bytes), bytes.size());
    for (const size_t at : {0, 3995, 3996, 4000, 9000, 19'999}) {
      bytes[at] ^= std::byte{1};
      EXPECT_EQ(content.find_difference(100, bytes), at);
      bytes[at] ^= std::byte{1};
    }
  }
}

TEST(CheckpointContent, NoTwoPagesAreEqual) {
  std::set<std::string> sectors;
  size_t count = 0;
  for (const uint64_t seed : {1, 2}) {
    const auto bytes = bytes_from(CheckpointContent::random(seed), 0, 4 << 20);
    for (size_t at = 0; at < bytes.size(); at += 512, ++count) {
      sectors.emplace(reinterpret_cast<const char*>(bytes.data()) + at, 512);
    }
  }
  EXPECT_EQ(sectors.size(), count);
}

TEST(CheckpointContent, OnesAreOnesOfTheType) {
  std::array<float, 3> values{};
  CheckpointContent::ones(data::ElementType::kF32)
      .fill(0, std::as_writable_bytes(std::span(values)));
  EXPECT_THAT(values, testing::Each(1.0f));
  std::array<double, 3> doubles{};
  CheckpointContent::ones(data::ElementType::kF64)
      .fill(0, std::as_writable_bytes(std::span(doubles)));
  EXPECT_THAT(doubles, testing::Each(1.0));
  std::array<int8_t, 9> bytes{};
  CheckpointContent::ones(data::ElementType::kI8).fill(0, std::as_writable_bytes(std::span(bytes)));
  EXPECT_THAT(bytes, testing::Each(1));
}

// Files of one version are verified by the next.
TEST(CheckpointContent, TheBytesNeverChange) {
  EXPECT_EQ(content_seed("global_epoch1_step2", "model_states-0.pt", 3), 11897156818133161519u);
  EXPECT_EQ(CheckpointContent::random(42).checksum(ChecksumKind::kZip, 1'000'000), 4013106315u);
}

TEST(CheckpointContent, SeedsDependOnEveryPart) {
  const uint64_t seed = content_seed("a", "bc", 0);
  EXPECT_NE(seed, content_seed("ab", "c", 0));
  EXPECT_NE(seed, content_seed("a", "bc", 1));
  EXPECT_NE(seed, content_seed("b", "bc", 0));
}

}  // namespace
}  // namespace millrace::bench
