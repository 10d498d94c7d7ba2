#include "base/io/inflate.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/io/gzip.h"

namespace millrace {
namespace {

// "hello hello hello hello", by Python's zlib.compress(). Its raw deflate is without the first two
// bytes and the last four.
constexpr unsigned char kZlib[] = {0x78, 0x9c, 0xcb, 0x48, 0xcd, 0xc9, 0xc9, 0x57,
                                   0xc8, 0x40, 0x27, 0x01, 0x68, 0x03, 0x08, 0xb1};
constexpr std::string_view kText = "hello hello hello hello";

ByteView zlib_bytes() { return std::as_bytes(std::span(kZlib)); }
ByteView raw_bytes() { return zlib_bytes().subspan(2, zlib_bytes().size() - 6); }

class Inflate : public testing::Test {
 protected:
  void SetUp() override {
    const Status works = inflate_zlib_into(zlib_bytes(), room(kText.size()));
    if (!works.ok() && works.error().code() == Errc::kUnsupported) GTEST_SKIP() << "without zlib";
  }

  MutableByteView room(size_t size_bytes) {
    bytes_.resize(size_bytes);
    return bytes_;
  }
  std::string text() const { return std::string(text_of(bytes_)); }

  // Null if the build cannot compress.
  static std::string gzip_of(std::string_view content) {
    const auto writer = GzipWriter::create(6);
    if (!writer.ok()) return {};
    std::string packed;
    EXPECT_TRUE((*writer)->append(content, packed).ok());
    EXPECT_TRUE((*writer)->finish(packed).ok());
    return packed;
  }

 private:
  std::vector<std::byte> bytes_;
};

TEST_F(Inflate, ReadsRawAndZlibStreams) {
  ASSERT_TRUE(inflate_into(raw_bytes(), room(kText.size())).ok());
  EXPECT_EQ(text(), kText);
  ASSERT_TRUE(inflate_zlib_into(zlib_bytes(), room(kText.size())).ok());
  EXPECT_EQ(text(), kText);
}

TEST_F(Inflate, ReadsAllMembersOfAGzipStream) {
  const std::string one = gzip_of("one ");
  if (one.empty()) GTEST_SKIP() << "the build has no zlib to compress with";
  const std::string both = one + gzip_of("two");
  ASSERT_TRUE(inflate_gzip_into(bytes_of(both), room(7)).ok());
  EXPECT_EQ(text(), "one two");
}

TEST_F(Inflate, ReadsAnEmptyStream) {
  constexpr unsigned char kEmpty[] = {0x78, 0x9c, 0x03, 0x00, 0x00, 0x00, 0x00, 0x01};
  EXPECT_TRUE(inflate_zlib_into(std::as_bytes(std::span(kEmpty)), {}).ok());
}

TEST_F(Inflate, RefusesOtherLengthsThanExpected) {
  for (const size_t length : {kText.size() - 1, kText.size() + 1, size_t{0}}) {
    EXPECT_EQ(inflate_into(raw_bytes(), room(length)).error().code(), Errc::kCorrupt) << length;
    EXPECT_EQ(inflate_zlib_into(zlib_bytes(), room(length)).error().code(), Errc::kCorrupt)
        << length;
  }
}

TEST_F(Inflate, RefusesCutStreamsAndBytesBehindThem) {
  const ByteView whole = zlib_bytes();
  for (size_t length = 0; length < whole.size(); ++length) {
    EXPECT_FALSE(inflate_zlib_into(whole.first(length), room(kText.size())).ok()) << length;
  }
  std::vector<std::byte> longer(whole.begin(), whole.end());
  longer.push_back(std::byte{0});
  EXPECT_EQ(inflate_zlib_into(longer, room(kText.size())).error().message(),
            "the compressed data yields 23 of 23 bytes, and 1 of its 17 bytes are unused");
}

TEST_F(Inflate, ChecksTheChecksum) {
  std::vector<std::byte> bad(zlib_bytes().begin(), zlib_bytes().end());
  bad.back() ^= std::byte{1};
  EXPECT_EQ(inflate_zlib_into(bad, room(kText.size())).error().code(), Errc::kCorrupt);
  std::string gzip = gzip_of(kText);
  if (gzip.empty()) return;
  gzip[gzip.size() - 8] ^= 1;
  EXPECT_EQ(inflate_gzip_into(bytes_of(gzip), room(kText.size())).error().code(), Errc::kCorrupt);
}

}  // namespace
}  // namespace millrace
