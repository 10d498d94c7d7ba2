#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/bytes.h"
#include "bench/samples/sample_check.h"
#include "format/images/jpeg.h"
#include "format/images/png.h"

namespace millrace::bench {
namespace {

using testing::HasSubstr;

std::vector<uint8_t> pixels() {
  std::vector<uint8_t> all(3 * 40 * 30);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint8_t>(i * i / 7);
  return all;
}

Result<std::vector<std::byte>> jpeg(bool progressive) {
  const std::vector<uint8_t> bytes = pixels();
  return format::write_jpeg(
      {.pixels = bytes.data(), .size = {.width = 40, .height = 30}, .stride_bytes = 3 * 40},
      {.progressive = progressive});
}

Result<std::vector<std::byte>> png() {
  const std::vector<uint8_t> bytes = pixels();
  return format::write_png(
      {.pixels = bytes.data(), .size = {.width = 40, .height = 30}, .stride_bytes = 3 * 40});
}

void expect_every_cut_is_noticed(ByteView image) {
  EXPECT_TRUE(check_image(image).ok());
  for (size_t size = 0; size < image.size(); ++size) {
    EXPECT_FALSE(check_image(image.first(size)).ok()) << size << " of " << image.size();
  }
}

TEST(ImageCheck, NoticesEveryCutOfAJpeg) {
  for (const bool progressive : {false, true}) {
    const auto image = jpeg(progressive);
    if (!image.ok()) GTEST_SKIP() << image.error().message();
    expect_every_cut_is_noticed(*image);
  }
}

TEST(ImageCheck, NoticesEveryCutAndEveryFlippedBitOfAPng) {
  const auto image = png();
  if (!image.ok()) GTEST_SKIP() << image.error().message();
  expect_every_cut_is_noticed(*image);
  std::vector<std::byte> damaged = *image;
  for (size_t at = 0; at < damaged.size(); ++at) {
    damaged[at] ^= std::byte{0x10};
    EXPECT_FALSE(check_image(damaged).ok()) << "byte " << at;
    damaged[at] ^= std::byte{0x10};
  }
}

TEST(ImageCheck, AcceptsBytesBehindTheEndAsImageProgramsDo) {
  for (auto image : {jpeg(false), png()}) {
    if (!image.ok()) GTEST_SKIP() << image.error().message();
    image->resize(image->size() + 100);
    EXPECT_TRUE(check_image(*image).ok());
  }
}

TEST(ImageCheck, SaysWhatIsNoImage) {
  EXPECT_THAT(check_image(bytes_of(std::string(500, 'x'))).error().message(),
              HasSubstr("the 500 bytes are not a JPEG or PNG image"));
  EXPECT_THAT(check_image({}).error().message(), HasSubstr("the 0 bytes are not"));
}

}  // namespace
}  // namespace millrace::bench
