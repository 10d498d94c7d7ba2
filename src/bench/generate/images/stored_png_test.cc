#include "bench/generate/images/stored_png.h"

#include <gtest/gtest.h>

#include "bench/generate/content.h"
#include "format/images/png.h"
#include "format/testing/collected_rows.h"

namespace millrace::bench {
namespace {

TEST(Adler32, IsThatOfTheRfc) {
  EXPECT_EQ(adler32({}), 1u);
  EXPECT_EQ(adler32(bytes_of("Wikipedia")), 0x11e60398u);
}

TEST(Adler32, ContinuesAndDoesNotOverflow) {
  const std::string full(100'000, '\xff');
  uint32_t low = 1;
  uint32_t high = 0;
  for (size_t i = 0; i < full.size(); ++i) {
    low = (low + 255) % 65521;
    high = (high + low) % 65521;
  }
  EXPECT_EQ(adler32(bytes_of(full)), high << 16 | low);
  const std::string_view text = full;
  EXPECT_EQ(adler32(bytes_of(text.substr(777)), adler32(bytes_of(text.substr(0, 777)))),
            high << 16 | low);
}

// Sizes around one block of deflate, and rows longer than one.
TEST(StoredPng, HasThePixelsItWasGiven) {
  const auto reader = format::PngReader::create({});
  if (!reader.ok()) GTEST_SKIP() << reader.error().message();
  const Content content{DatasetConfig()};
  for (const image::Size size :
       {image::Size{1, 1}, {3, 2}, {343, 343}, {254, 257}, {65534, 1}, {65535, 1}, {100'000, 3}}) {
    const ContentArray array{.shape = {size.height, size.width, image::kChannels}};
    image::Pixels pixels(size);
    content.fill(array, 0, std::as_writable_bytes(std::span(pixels.bytes)));
    std::vector<std::byte> png(stored_png_bytes(size, /*is_gray=*/false));
    write_stored_png(
        {.size = size, .is_gray = false, .bytes = std::as_bytes(std::span(pixels.bytes))}, png);
    ASSERT_EQ(*(*reader)->open(png), size);
    format::CollectedRows rows(size);
    const Status status = (*reader)->read({.width = size.width, .height = size.height}, rows);
    ASSERT_TRUE(status.ok()) << status.error().message();
    EXPECT_EQ(rows.pixels().bytes, pixels.bytes) << size.width;
  }
}

}  // namespace
}  // namespace millrace::bench
