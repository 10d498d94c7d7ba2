#include "base/hash/crc32_fold.h"

#include <gtest/gtest.h>

#include "base/io/gzip.h"
#include "base/numbers/random.h"

namespace millrace {
namespace {

// The definition: one bit at a time.
uint32_t crc32_by_bits(ByteView bytes) {
  uint32_t crc = ~uint32_t{0};
  for (const std::byte byte : bytes) {
    crc ^= std::to_integer<uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0xedb88320u : 0u);
  }
  return ~crc;
}

TEST(ZipCrc32, HasTheCheckValueOfItsDefinition) {
  EXPECT_EQ(zip_crc32(bytes_of("123456789")), 0xcbf43926u);
  EXPECT_EQ(zip_crc32({}), 0u);
}

TEST(ZipCrc32, IsTheSameForEveryLengthAndPlace) {
  Random random(7);
  std::vector<std::byte> bytes(700);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next());
  for (size_t length = 0; length <= 600; ++length) {
    const ByteView part = ByteView(bytes).subspan(length % 17, length);
    ASSERT_EQ(zip_crc32(part), crc32_by_bits(part)) << length;
  }
}

TEST(ZipCrc32, ContinuesFromTheChecksumBefore) {
  std::vector<std::byte> bytes(5000, std::byte{0x5a});
  for (const size_t cut : {0u, 1u, 63u, 64u, 65u, 1000u, 4999u, 5000u}) {
    const uint32_t first = zip_crc32(ByteView(bytes).first(cut));
    EXPECT_EQ(zip_crc32(ByteView(bytes).subspan(cut), first), crc32_by_bits(bytes)) << cut;
  }
}

TEST(Crc32Fold, FoldsWholeBlocksOrNothing) {
  const std::vector<std::byte> bytes(1000);
  const Crc32Folded folded = crc32_fold(bytes, 0);
  EXPECT_TRUE(folded.size_bytes == 0 || folded.size_bytes == 992);
  EXPECT_EQ(crc32_fold(ByteView(bytes).first(63), 0).size_bytes, 0u);
}

}  // namespace
}  // namespace millrace
