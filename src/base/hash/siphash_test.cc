#include "base/hash/siphash.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace millrace {
namespace {

// From vectors.h of the authors' reference code: key 00 01 ... 0f, messages 00 01 02 ...
struct Vector {
  size_t size_bytes;
  const char* tag;
};
constexpr Vector kVectors[] = {
    {0, "a3817f04ba25a8e66df67214c7550293"},  {1, "da87c1d86b99af44347659119b22fc45"},
    {7, "a1f1ebbed8dbc153c0b84aa61ff08239"},  {8, "3b62a9ba6258f5610f83e264f31497b4"},
    {9, "264499060ad9baabc47f8b02bb6d71ed"},  {15, "5493e99933b0a8117e08ec0f97cfc3d9"},
    {16, "6ee2a4ca67b054bbfd3315bf85230577"}, {31, "2939b0183223fafc1723de4f52c43d35"},
    {63, "5150d1772f50834a503e069a973fbd7c"},
};

SipHashKey counting_key() {
  SipHashKey key;
  for (size_t i = 0; i < key.size(); ++i) key[i] = static_cast<uint8_t>(i);
  return key;
}

std::string hex(const SipHashTag& tag) {
  std::string text;
  for (const uint8_t byte : tag) text += fmt::format("{:02x}", byte);
  return text;
}

TEST(SipHash, GivesThePublishedTags) {
  for (const Vector& vector : kVectors) {
    std::vector<std::byte> message;
    for (size_t i = 0; i < vector.size_bytes; ++i) message.push_back(static_cast<std::byte>(i));
    EXPECT_EQ(hex(siphash(counting_key(), message)), vector.tag) << vector.size_bytes << " bytes";
  }
}

TEST(SipHash, AnotherKeyGivesAnotherTag) {
  SipHashKey other = counting_key();
  other[15] ^= 0x80;
  EXPECT_NE(siphash(other, bytes_of("message")), siphash(counting_key(), bytes_of("message")));
}

TEST(SipHash, TagsDifferWhereverOneBitDiffers) {
  const SipHashTag tag = siphash(counting_key(), bytes_of("message"));
  EXPECT_TRUE(is_same_tag(tag, tag));
  for (size_t bit = 0; bit < tag.size() * 8; ++bit) {
    SipHashTag other = tag;
    other[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    EXPECT_FALSE(is_same_tag(tag, other)) << bit;
  }
}

}  // namespace
}  // namespace millrace
