#include "base/hash/crc32c.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/numbers/random.h"

namespace millrace {
namespace {

std::vector<std::byte> random_bytes(size_t size_bytes) {
  std::vector<std::byte> bytes(size_bytes);
  Random random(1);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next());
  return bytes;
}

// The values of RFC 3720, appendix B.4.
TEST(Crc32c, AgreesWithThePublishedValues) {
  std::vector<std::byte> ascending(32);
  for (size_t i = 0; i < 32; ++i) ascending[i] = static_cast<std::byte>(i);
  EXPECT_EQ(crc32c({}), 0u);
  EXPECT_EQ(crc32c(bytes_of("123456789")), 0xe3069283u);
  EXPECT_EQ(crc32c(std::vector<std::byte>(32)), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::vector<std::byte>(32, std::byte{0xff})), 0x62a8ab43u);
  EXPECT_EQ(crc32c(ascending), 0x46dd794eu);
}

TEST(Crc32c, InstructionAndTablesAgreeAtEveryLengthAndAlignment) {
  constexpr size_t kLengths[] = {0, 1, 7, 8, 9, 63, 1024, 3071, 3072, 3073, 6144, 9000};
  const auto bytes = random_bytes(10'000);
  for (size_t offset = 0; offset < 9; ++offset) {
    for (const size_t length : kLengths) {
      const ByteView view = ByteView(bytes).subspan(offset, length);
      EXPECT_EQ(crc32c(view, 77), crc32c_by_tables(view, 77)) << offset << " " << length;
    }
  }
}

TEST(Crc32c, ContinuesFromAnEarlierChecksum) {
  const auto bytes = random_bytes(7'000);
  const ByteView whole(bytes);
  EXPECT_EQ(crc32c(whole.subspan(3'333), crc32c(whole.first(3'333))), crc32c(whole));
}

TEST(Crc32c, EveryBitMatters) {
  auto bytes = random_bytes(4'096);
  const uint32_t right = crc32c(bytes);
  for (size_t bit = 0; bit < bytes.size() * 8; bit += 61) {
    bytes[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    EXPECT_NE(crc32c(bytes), right);
    bytes[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
  }
}

}  // namespace
}  // namespace millrace
