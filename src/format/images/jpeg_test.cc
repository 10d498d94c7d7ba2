#include "format/images/jpeg.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "format/testing/collected_rows.h"
#include "format/testing/test_images.h"

namespace millrace::format {
namespace {

using image::Pixels;
using image::Rect;
using image::Size;
using testing::HasSubstr;

#ifdef MILLRACE_HAVE_JPEG

std::vector<std::byte> encoded(Size size, const JpegWriteOptions& options = {}) {
  auto bytes = write_jpeg(test_image(size).view(), options);
  EXPECT_TRUE(bytes.ok());
  return *std::move(bytes);
}

std::unique_ptr<JpegReader> make_reader(const JpegOptions& options = {}) {
  auto reader = JpegReader::create(options);
  EXPECT_TRUE(reader.ok());
  return *std::move(reader);
}

Pixels decoded(JpegReader& reader, ByteView bytes, const Rect& window, uint32_t eighths = 8) {
  EXPECT_TRUE(reader.open(bytes).ok());
  CollectedRows rows({window.width, window.height});
  const Status status = reader.read(window, eighths, rows);
  EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().message());
  EXPECT_EQ(rows.rows_in(), window.height);
  return rows.pixels();
}

Rect whole(Size size) { return {0, 0, size.width, size.height}; }

int largest_difference(const Pixels& left, const Pixels& right) {
  int largest = 0;
  for (size_t i = 0; i < left.bytes.size(); ++i) {
    largest = std::max(largest, std::abs(left.bytes[i] - right.bytes[i]));
  }
  return largest;
}

TEST(Jpeg, DecodesWhatItWrote) {
  const auto reader = make_reader();
  const Size size{97, 61};
  const auto bytes = encoded(size, {.quality = 100, .halve_colour = false});
  EXPECT_EQ(*reader->open(bytes), size);
  EXPECT_LE(largest_difference(decoded(*reader, bytes, whole(size)), test_image(size)), 4);
}

TEST(Jpeg, APartHasTheSamePixelsAsInTheWholeImage) {
  const auto reader = make_reader();
  const Size size{150, 113};
  const JpegWriteOptions kinds[] = {{}, {.halve_colour = false}, {.progressive = true}};
  for (const JpegWriteOptions& kind : kinds) {
    const auto bytes = encoded(size, kind);
    const Pixels all = decoded(*reader, bytes, whole(size));
    Random random(5);
    for (int i = 0; i < 300; ++i) {
      Rect part;
      part.width = 1 + static_cast<uint32_t>(random.below(size.width));
      part.height = 1 + static_cast<uint32_t>(random.below(size.height));
      part.x = static_cast<uint32_t>(random.below(size.width - part.width + 1));
      part.y = static_cast<uint32_t>(random.below(size.height - part.height + 1));
      const Pixels alone = decoded(*reader, bytes, part);
      for (uint32_t y = 0; y < part.height; ++y) {
        ASSERT_EQ(std::memcmp(alone.view().row(y), all.view().row(part.y + y) + size_t{part.x} * 3,
                              size_t{part.width} * 3),
                  0)
            << part.width << " x " << part.height << " at " << part.x << ", " << part.y << ", row "
            << y << ", progressive " << kind.progressive;
      }
    }
  }
}

TEST(Jpeg, AScaledPartHasTheSamePixelsAsInTheScaledImage) {
  const auto reader = make_reader();
  const Size size{331, 250};
  const auto bytes = encoded(size);
  for (const uint32_t eighths : {1u, 2u, 4u}) {
    ASSERT_TRUE(reader->open(bytes).ok());
    const Size scaled = reader->size_at(eighths);
    EXPECT_EQ(scaled.width, (size.width * eighths + 7) / 8);
    const Pixels all = decoded(*reader, bytes, whole(scaled), eighths);
    const Rect part{9, 7, 20, 15};
    const Pixels alone = decoded(*reader, bytes, part, eighths);
    for (uint32_t y = 0; y < part.height; ++y) {
      ASSERT_EQ(std::memcmp(alone.view().row(y), all.view().row(part.y + y) + size_t{part.x} * 3,
                            size_t{part.width} * 3),
                0)
          << eighths << "/8, row " << y;
    }
  }
}

TEST(Jpeg, TruncatedDataIsAnErrorWhereverItEnds) {
  const auto reader = make_reader();
  const Size size{64, 64};
  const auto bytes = encoded(size);
  const Rect all = whole(size);
  for (size_t length = 0; length + 64 < bytes.size(); length += 7) {
    const ByteView part(bytes.data(), length);
    const auto opened = reader->open(part);
    if (!opened.ok()) continue;
    CollectedRows rows(size);
    EXPECT_FALSE(reader->read(all, 8, rows).ok()) << length << " of " << bytes.size();
  }
  EXPECT_LE(largest_difference(decoded(*reader, bytes, all), test_image(size)), 60);
}

TEST(Jpeg, AMissingEndMarkerIsNotDamage) {
  const auto reader = make_reader();
  const auto bytes = encoded({64, 64});
  decoded(*reader, ByteView(bytes.data(), bytes.size() - 2), whole({64, 64}));
}

TEST(Jpeg, DamageIsAcceptedOnRequest) {
  const auto reader = make_reader({.accept_damage = true});
  const auto bytes = encoded({64, 64});
  decoded(*reader, ByteView(bytes.data(), bytes.size() / 2), whole({64, 64}));
}

TEST(Jpeg, DataAfterTheWindowIsNotChecked) {
  const auto reader = make_reader();
  const auto bytes = encoded({64, 640});
  decoded(*reader, ByteView(bytes.data(), bytes.size() / 2), {0, 0, 64, 64});
}

TEST(Jpeg, AHeaderThatClaimsTooMuchIsRefusedBeforeAllocating) {
  auto bytes = encoded({16, 16});
  for (size_t i = 0; i + 8 < bytes.size(); ++i) {
    if (bytes[i] != std::byte{0xFF} || bytes[i + 1] != std::byte{0xC0}) continue;
    bytes[i + 5] = bytes[i + 7] = std::byte{0xFF};  // 65280 + 16 in each direction
    break;
  }
  const auto opened = make_reader()->open(bytes);
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().code(), Errc::kExhausted);
  EXPECT_THAT(opened.error().message(), HasSubstr("65296 x 65296"));
}

TEST(Jpeg, OtherBytesAreRefused) {
  const auto reader = make_reader();
  EXPECT_THAT(reader->open(bytes_of("GIF89a")).error().message(), HasSubstr("not a JPEG"));
  EXPECT_FALSE(reader->open({}).ok());
  EXPECT_THAT(reader->open(bytes_of("\xFF\xD8\xFFxxxxxx")).error().message(), HasSubstr("JPEG: "));
  EXPECT_EQ(reader->open(bytes_of("\xFF\xD8\xFF\xD9")).error().message(),
            "JPEG: JPEG datastream contains no image");
}

TEST(Jpeg, AReaderCanBeReusedAfterAnErrorOrAnUnreadImage) {
  const auto reader = make_reader();
  const auto bytes = encoded({40, 30});
  EXPECT_FALSE(reader->open(ByteView(bytes.data(), 30)).ok());
  EXPECT_TRUE(reader->open(bytes).ok());
  EXPECT_EQ(*reader->open(bytes), (Size{40, 30}));
  decoded(*reader, bytes, whole({40, 30}));
}

TEST(Jpeg, WritingRefusesWhatAJpegCannotHold) {
  EXPECT_FALSE(write_jpeg({nullptr, {0, 5}, 0}, {}).ok());
  EXPECT_FALSE(write_jpeg({nullptr, {70000, 5}, 0}, {}).ok());
  EXPECT_FALSE(write_jpeg(test_image({4, 4}).view(), {.quality = 101}).ok());
}

#else

TEST(Jpeg, ABuildWithoutTheLibrarySaysSo) {
  EXPECT_THAT(JpegReader::create({}).error().message(), HasSubstr("libjpeg-dev"));
}

#endif

}  // namespace
}  // namespace millrace::format
