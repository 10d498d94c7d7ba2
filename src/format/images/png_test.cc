#include "format/images/png.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#ifdef MILLRACE_HAVE_PNG
#include <zlib.h>
#endif

#include "format/testing/collected_rows.h"
#include "format/testing/test_images.h"

namespace millrace::format {
namespace {

using image::Rect;
using image::Size;
using testing::HasSubstr;

#ifdef MILLRACE_HAVE_PNG

std::vector<std::byte> encoded(Size size) {
  auto bytes = write_png(test_image(size).view());
  EXPECT_TRUE(bytes.ok());
  return *std::move(bytes);
}

std::unique_ptr<PngReader> make_reader(const PngOptions& options = {}) {
  auto reader = PngReader::create(options);
  EXPECT_TRUE(reader.ok());
  return *std::move(reader);
}

TEST(Png, DecodesWhatItWrote) {
  const auto reader = make_reader();
  const Size size{97, 61};
  const auto bytes = encoded(size);
  EXPECT_EQ(*reader->open(bytes), size);
  CollectedRows rows(size);
  ASSERT_TRUE(reader->read({0, 0, 97, 61}, rows).ok());
  EXPECT_EQ(rows.pixels().bytes, test_image(size).bytes);
}

TEST(Png, APartHasTheSamePixelsAsInTheWholeImage) {
  const auto reader = make_reader();
  const auto bytes = encoded({97, 61});
  ASSERT_TRUE(reader->open(bytes).ok());
  CollectedRows rows({10, 20});
  ASSERT_TRUE(reader->read({30, 40, 10, 20}, rows).ok());
  const image::Pixels all = test_image({97, 61});
  for (uint32_t y = 0; y < 20; ++y) {
    EXPECT_EQ(std::memcmp(rows.pixels().view().row(y), all.view().row(40 + y) + 90, 30), 0);
  }
}

TEST(Png, TruncatedDataIsAnErrorWhereverItEnds) {
  const auto reader = make_reader();
  const Size size{40, 40};
  const auto bytes = encoded(size);
  // The last chunks, a checksum and IEND, hold no pixels.
  for (size_t length = 0; length + 32 < bytes.size(); length += 11) {
    if (!reader->open(ByteView(bytes.data(), length)).ok()) continue;
    CollectedRows rows(size);
    EXPECT_FALSE(reader->read({0, 0, 40, 40}, rows).ok()) << length << " of " << bytes.size();
  }
}

TEST(Png, AHeaderThatClaimsTooMuchIsRefused) {
  const auto bytes = encoded({40, 40});
  const auto opened = make_reader({.max_pixels = 1000})->open(bytes);
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().code(), Errc::kExhausted);
  EXPECT_THAT(opened.error().message(), HasSubstr("40 x 40"));
}

TEST(Png, ADamagedHeaderIsFoundByItsChecksum) {
  auto bytes = encoded({40, 40});
  bytes[19] ^= std::byte{1};  // the width
  const auto opened = make_reader()->open(bytes);
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().code(), Errc::kCorrupt);
}

TEST(Png, TheHeaderIsCheckedBeforeAnythingElseIsRead) {
  const auto bytes = encoded({40, 40});
  constexpr size_t kHeaderEnd = 33;  // the signature and IHDR
  const auto opened = make_reader({.max_pixels = 1000})->open(ByteView(bytes).first(kHeaderEnd));
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().code(), Errc::kExhausted) << opened.error().message();
}

std::string big_endian(size_t number) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(number >> shift & 0xff);
  return bytes;
}

std::string chunk(const std::string& kind, const std::string& body) {
  const std::string checked = kind + body;
  const auto* first = reinterpret_cast<const Bytef*>(checked.data());
  return big_endian(body.size()) + checked +
         big_endian(crc32(0, first, static_cast<uInt>(checked.size())));
}

// `count` letters, compressed to a thousandth.
std::string deflated(size_t count) {
  const std::string letters(count, 'a');
  uLongf size = compressBound(static_cast<uLong>(count));
  std::string out(size, '\0');
  EXPECT_EQ(compress(reinterpret_cast<Bytef*>(out.data()), &size,
                     reinterpret_cast<const Bytef*>(letters.data()), static_cast<uLong>(count)),
            Z_OK);
  out.resize(size);
  return out;
}

// The same image with chunks between the header and the pixels.
std::vector<std::byte> with_chunks(std::vector<std::byte> image, const std::string& chunks) {
  const ByteView added = bytes_of(chunks);
  image.insert(image.begin() + 33, added.begin(), added.end());
  return image;
}

uint64_t allocated_bytes() {
  const auto heap = mallinfo2();
  return heap.uordblks + heap.hblkhd;
}

TEST(Png, HugeTextAndProfilesTakeNoMemory) {
  using namespace std::string_literals;
  const std::string letters = deflated(4'000'000);
  const Size size{40, 40};
  for (const std::string& bomb :
       {chunk("zTXt", "Comment\0\0"s + letters), chunk("iTXt", "Comment\0\1\0\0\0"s + letters),
        chunk("iCCP", "Profile\0\0"s + letters)}) {
    std::string bombs;
    for (int i = 0; i < 50; ++i) bombs += bomb;
    const auto bytes = with_chunks(encoded(size), bombs);
    const auto reader = make_reader();
    const uint64_t before = allocated_bytes();
    const auto opened = reader->open(bytes);
    ASSERT_TRUE(opened.ok()) << opened.error().message();
    EXPECT_LT(allocated_bytes(), before + 1'000'000) << bomb.substr(4, 4);
    CollectedRows rows(size);
    ASSERT_TRUE(reader->read({0, 0, 40, 40}, rows).ok());
    EXPECT_EQ(rows.pixels().bytes, test_image(size).bytes);
  }
}

TEST(Png, OtherBytesAreRefused) {
  const auto reader = make_reader();
  EXPECT_THAT(reader->open(bytes_of("GIF89a")).error().message(), HasSubstr("not a PNG"));
  EXPECT_FALSE(reader->open({}).ok());
}

#else

TEST(Png, ABuildWithoutTheLibrarySaysSo) {
  EXPECT_THAT(PngReader::create({}).error().message(), HasSubstr("libpng-dev"));
}

#endif

}  // namespace
}  // namespace millrace::format
