#include "base/text/protobuf.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

// The bytes are from the examples in the specification of the encoding.
TEST(Protobuf, WritesNumbersTextsAndMessages) {
  std::string out;
  ProtobufWriter proto(out);
  proto.uint(1, 150);
  proto.text(2, "testing");
  proto.message(3, [&] { proto.uint(1, 150); });
  EXPECT_EQ(out, "\x08\x96\x01\x12\x07testing\x1a\x03\x08\x96\x01");
}

TEST(Protobuf, WritesFixedNumbersAndHeads) {
  std::string out;
  ProtobufWriter proto(out);
  proto.fixed32(6, 0x01020304);
  proto.head(2, 300);
  EXPECT_EQ(out, "\x35\x04\x03\x02\x01\x12\xac\x02");
}

TEST(Protobuf, WritesNegativeNumbersInTenBytes) {
  std::string out;
  ProtobufWriter(out).sint(1, -1);
  EXPECT_EQ(out, std::string("\x08") + std::string(9, '\xff') + "\x01");
}

TEST(Protobuf, WritesTheLengthOfLongMessages) {
  std::string out;
  ProtobufWriter proto(out);
  const std::string long_text(300, 'x');
  proto.message(1, [&] { proto.message(2, [&] { proto.text(3, long_text); }); });
  EXPECT_EQ(out, "\x0a\xb2\x02\x12\xaf\x02\x1a\xac\x02" + long_text);
}

TEST(Protobuf, WritesDoublesAsEightBytes) {
  std::string out;
  ProtobufWriter(out).number(5, 1.0);
  EXPECT_EQ(out, std::string("\x29\0\0\0\0\0\0\xf0\x3f", 9));
}

}  // namespace
}  // namespace millrace
