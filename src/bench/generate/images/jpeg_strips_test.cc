#include "bench/generate/images/jpeg_strips.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "format/images/jpeg.h"
#include "format/testing/collected_rows.h"

namespace millrace::bench {
namespace {

using format::JpegReader;

Content content_of(std::string_view kind) {
  DatasetConfig dataset;
  dataset.content = *named<ContentKind>(kind);
  return Content(dataset);
}

std::vector<std::byte> image_of(const JpegStrips& strips, uint64_t key, image::Size size) {
  std::vector<std::byte> image(strips.room_bytes(size));
  image.resize(strips.write(key, size, image));
  return image;
}

// The pixels; fails if the decoder has anything to complain about.
Result<std::vector<uint8_t>> decoded(ByteView jpeg, image::Size size) {
  ASSIGN_OR_RETURN(const auto reader, JpegReader::create({}));
  ASSIGN_OR_RETURN(const image::Size found, reader->open(jpeg));
  EXPECT_EQ(found, size);
  format::CollectedRows rows(size);
  RETURN_IF_ERROR(reader->read({.width = size.width, .height = size.height}, 8, rows));
  return rows.pixels().bytes;
}

class JpegStripsTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    const auto reader = JpegReader::create({});
    if (!reader.ok()) GTEST_SKIP() << reader.error().message();
  }
};

TEST_P(JpegStripsTest, ImagesOfAnySizeAreDecodedWithoutDamage) {
  for (const std::string_view kind : {"random", "photo", "zero"}) {
    const JpegStrips strips = *JpegStrips::encode(content_of(kind), GetParam(), 75);
    for (const image::Size size :
         {image::Size{1, 1}, {7, 9}, {343, 343}, {512, 8}, {513, 16}, {16, 700}, {2000, 33}}) {
      for (uint64_t key = 0; key < 20; ++key) {
        const auto pixels = decoded(image_of(strips, key, size), size);
        ASSERT_TRUE(pixels.ok()) << kind << " " << size.width << " x " << size.height << ": "
                                 << pixels.error().message();
      }
    }
  }
}

TEST_P(JpegStripsTest, ImagesDependOnTheirKeyOnly) {
  const JpegStrips strips = *JpegStrips::encode(content_of("random"), GetParam(), 75);
  const JpegStrips again = *JpegStrips::encode(content_of("random"), GetParam(), 75);
  const image::Size size{100, 80};
  EXPECT_EQ(image_of(strips, 5, size), image_of(again, 5, size));
  EXPECT_NE(*decoded(image_of(strips, 5, size), size), *decoded(image_of(strips, 6, size), size));
}

// What makes a compressor or a storage that finds equal blocks useless.
TEST_P(JpegStripsTest, TwoImagesHaveFewBytesInCommon) {
  const JpegStrips strips = *JpegStrips::encode(content_of("random"), GetParam(), 75);
  const image::Size size{512, 512};
  const auto one = image_of(strips, 1, size);
  const auto two = image_of(strips, 2, size);
  const std::string_view other = text_of(two);
  size_t found_count = 0;
  constexpr size_t kPiece = 12;
  for (size_t at = 1000; at + kPiece < one.size(); at += 101) {
    found_count += other.find(text_of(ByteView(one).subspan(at, kPiece))) != other.npos ? 1 : 0;
  }
  EXPECT_LE(found_count, one.size() / 101 / 50);
}

TEST_P(JpegStripsTest, ImagesAreAsLongAsIfTheirPixelsHadBeenEncoded) {
  const image::Size size{640, 480};
  for (const std::string_view kind : {"random", "photo"}) {
    const Content content = content_of(kind);
    ContentArray array{.shape = {size.height, size.width}};
    if (!GetParam()) array.shape = {size.height, size.width, image::kChannels};
    std::vector<std::byte> pixels(static_cast<size_t>(array.size_bytes()));
    content.fill(array, 0, pixels);
    const auto encoded =
        *format::write_jpeg({.pixels = reinterpret_cast<const uint8_t*>(pixels.data()),
                             .size = size,
                             .stride_bytes = pixels.size() / size.height},
                            {.quality = 75, .is_gray = GetParam()});
    const JpegStrips strips = *JpegStrips::encode(content, GetParam(), 75);
    const auto assembled = image_of(strips, 3, size);
    const double ratio =
        static_cast<double>(assembled.size()) / static_cast<double>(encoded.size());
    EXPECT_NEAR(ratio, 1, kind == "random" ? 0.01 : 0.05) << kind;
  }
}

INSTANTIATE_TEST_SUITE_P(Colours, JpegStripsTest, testing::Values(true, false),
                         [](const auto& tried) { return tried.param ? "gray" : "colour"; });

TEST(JpegScan, RefusesWhatIsCutOff) {
  if (!JpegReader::create({}).ok()) GTEST_SKIP() << "this build has no libjpeg";
  const image::Pixels pixels({.width = 40, .height = 40});
  const auto jpeg = *format::write_jpeg(pixels.view(), {.restarts = true});
  ASSERT_TRUE(parse_jpeg_scan(jpeg).ok());
  EXPECT_EQ(parse_jpeg_scan(jpeg)->intervals.size(), 3u);
  for (size_t size = 0; size + 2 < jpeg.size(); ++size) {
    EXPECT_FALSE(parse_jpeg_scan(ByteView(jpeg).first(size)).ok()) << size;
  }
}

}  // namespace
}  // namespace millrace::bench
