#include "base/bytes.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace millrace {
namespace {

std::vector<std::byte> bytes(std::initializer_list<int> values) {
  std::vector<std::byte> out;
  for (const int value : values) out.push_back(static_cast<std::byte>(value));
  return out;
}

TEST(ByteReader, ReadsLittleEndianIntegersInOrder) {
  const auto data = bytes({0x01, 0x34, 0x12, 0xff, 0xff, 0xff, 0xff});
  ByteReader reader(data);
  EXPECT_EQ(*reader.read<uint8_t>(), 1);
  EXPECT_EQ(*reader.read<uint16_t>(), 0x1234);
  EXPECT_EQ(*reader.read<int32_t>(), -1);
  EXPECT_TRUE(reader.at_end());
}

TEST(ByteReader, AShortReadReportsItsPositionAndDoesNotMove) {
  const auto data = bytes({1, 2, 3, 4, 5});
  ByteReader reader(data);
  ASSERT_TRUE(reader.skip(2).ok());
  const auto result = reader.read<uint64_t>();
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code(), Errc::kCorrupt);
  EXPECT_EQ(result.error().message(), "8 bytes are needed at byte 2, but 3 are left");
  EXPECT_EQ(reader.position(), 2u);
  EXPECT_EQ(*reader.read<uint8_t>(), 3);
}

TEST(ByteReader, AHugeLengthDoesNotOverflow) {
  const auto data = bytes({1, 2, 3});
  ByteReader reader(data);
  ASSERT_TRUE(reader.skip(1).ok());
  EXPECT_FALSE(reader.take(~size_t{0}).ok());
}

TEST(ByteReader, EmptyBytesHaveNothingToRead) {
  ByteReader reader({});
  EXPECT_TRUE(reader.at_end());
  EXPECT_TRUE(reader.take(0).ok());
  EXPECT_FALSE(reader.read<uint8_t>().ok());
}

TEST(Varint, RoundTripsAtEveryLength) {
  for (const uint64_t value : {uint64_t{0}, uint64_t{127}, uint64_t{128}, uint64_t{16383},
                               uint64_t{16384}, uint64_t{1} << 62, ~uint64_t{0}}) {
    std::array<std::byte, 10> buffer{};
    ByteWriter writer(buffer);
    ASSERT_TRUE(writer.write_varint(value).ok());
    ByteReader reader(writer.written());
    EXPECT_EQ(*reader.read_varint(), value);
    EXPECT_TRUE(reader.at_end());
  }
}

TEST(Varint, RefusesTruncatedOverlongAndOversizedNumbers) {
  const auto torn = bytes({0x80});
  EXPECT_FALSE(ByteReader(torn).read_varint().ok());
  const auto overlong = bytes({0x81, 0x00});
  EXPECT_FALSE(ByteReader(overlong).read_varint().ok());
  const auto oversized = bytes({255, 255, 255, 255, 255, 255, 255, 255, 255, 2});
  EXPECT_FALSE(ByteReader(oversized).read_varint().ok());
  const auto endless = bytes({255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255});
  EXPECT_FALSE(ByteReader(endless).read_varint().ok());
}

TEST(ByteWriter, ReportsThatTheBytesAreFull) {
  std::array<std::byte, 6> buffer{};
  ByteWriter writer(buffer);
  ASSERT_TRUE(writer.write(uint32_t{0x01020304}).ok());
  const Status status = writer.write(uint32_t{5});
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().message(), "cannot write 4 bytes at byte 4: there is room for only 2");
  EXPECT_TRUE(writer.append_text("ab").ok());
  EXPECT_EQ(writer.remaining(), 0u);
  EXPECT_EQ(text_of(writer.written()), std::string_view("\x04\x03\x02\x01"
                                                        "ab"));
}

}  // namespace
}  // namespace millrace
