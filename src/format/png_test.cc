#include "format/png.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "format/collected_rows.h"
#include "format/test_images.h"

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

TEST(Png, APartHasThePixelsItHasInTheWholeImage) {
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

TEST(Png, OtherBytesAreNamedAsSuch) {
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
