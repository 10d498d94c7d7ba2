#include "format/images/image_decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "format/images/jpeg.h"
#include "format/images/png.h"
#include "format/testing/test_images.h"

namespace millrace::format {
namespace {

using data::DecodeContext;
using data::Epoch;
using data::SampleId;
using image::Layout;
using image::PixelType;
using testing::HasSubstr;

std::unique_ptr<ImageDecoder> make_decoder(const ImageOptions& options) {
  auto decoder = ImageDecoder::create(options);
  EXPECT_TRUE(decoder.ok()) << (decoder.ok() ? "" : decoder.error().message());
  return *std::move(decoder);
}

Result<std::vector<std::byte>> try_decode(const ImageDecoder& decoder, ByteView sample,
                                          const DecodeContext& context = {},
                                          data::Scratch* scratch = nullptr) {
  std::vector<std::byte> out(decoder.fields()[0].size_bytes());
  const data::Output outputs[] = {MutableByteView(out)};
  RETURN_IF_ERROR(decoder.decode(sample, context, outputs, scratch));
  return out;
}

std::string refusal(const ImageOptions& options) {
  const auto decoder = ImageDecoder::create(options);
  return decoder.ok() ? "accepted" : decoder.error().message();
}

TEST(ImageDecoder, FieldsHaveShapeAndType) {
  const auto planar = make_decoder({.size = {224, 160}, .pixels = {.type = PixelType::kF32}});
  EXPECT_EQ(planar->fields()[0].shape, (data::Shape{3, 160, 224}));
  EXPECT_EQ(planar->fields()[0].type, data::ElementType::kF32);
  const auto pixels = make_decoder({.size = {224, 160}, .pixels = {.layout = Layout::kNhwc}});
  EXPECT_EQ(pixels->fields()[0].shape, (data::Shape{160, 224, 3}));
  EXPECT_EQ(pixels->fields()[0].type, data::ElementType::kU8);
}

TEST(ImageDecoder, InvalidOptionsAreRefusedWithTheirValues) {
  EXPECT_THAT(refusal({}), HasSubstr("not 0 x 0"));
  EXPECT_THAT(refusal({.size = {8, 8}, .resize_to = 7}), HasSubstr("resized to 7"));
  EXPECT_THAT(refusal({.size = {8, 8}, .flip_probability = 1.5}), HasSubstr("1.5"));
  EXPECT_THAT(refusal({.size = {8, 8}, .random_crop = {.area_min = 0}}), HasSubstr("not 0 to 1"));
  EXPECT_THAT(refusal({.size = {8, 8}, .random_crop = {.ratio_min = 2}}), HasSubstr("not 2 to"));
  EXPECT_THAT(refusal({.size = {8, 8}, .pixels = {.deviation = {1, 0, 1}}}),
              HasSubstr("channel 1"));
}

TEST(ImageDecoder, OtherBytesAreRefused) {
  const auto decoder = make_decoder({.size = {8, 8}});
  EXPECT_THAT(try_decode(*decoder, bytes_of("GIF89a")).error().message(),
              HasSubstr("neither a JPEG nor a PNG"));
  EXPECT_FALSE(try_decode(*decoder, {}).ok());
}

TEST(ImageDecoder, FlipsAsOftenAsAsked) {
  const auto decoder = make_decoder({.size = {8, 8}, .flip_probability = 0.25});
  int flips = 0;
  for (uint64_t i = 0; i < 4000; ++i) {
    flips += decoder->crop_of({50, 50}, {.sample = SampleId{i}}).flip ? 1 : 0;
  }
  EXPECT_NEAR(flips, 1000, 120);  // more than four standard deviations
}

TEST(ImageDecoder, EachOfSeedEpochAndSampleChangesTheCrop) {
  const auto decoder = make_decoder({.size = {8, 8}});
  const auto part = [&](const DecodeContext& context) {
    return decoder->crop_of({500, 375}, context).bounds;
  };
  const DecodeContext first{SampleId{3}, Epoch{2}, 1};
  EXPECT_EQ(part(first), part(first));
  EXPECT_NE(part(first), part({SampleId{4}, Epoch{2}, 1}));
  EXPECT_NE(part(first), part({SampleId{3}, Epoch{3}, 1}));
  EXPECT_NE(part(first), part({SampleId{3}, Epoch{2}, 2}));
}

#ifndef MILLRACE_HAVE_JPEG

TEST(ImageDecoder, WithoutTheLibraryAJpegIsRefusedByName) {
  const auto decoder = make_decoder({.size = {8, 8}});
  EXPECT_THAT(try_decode(*decoder, bytes_of("\xFF\xD8\xFF\xE0")).error().message(),
              HasSubstr("libjpeg-dev"));
}

#else

std::vector<std::byte> jpeg(image::Size size, uint64_t seed = 1) {
  auto bytes = write_jpeg(test_image(size, seed).view(), {});
  EXPECT_TRUE(bytes.ok());
  return *std::move(bytes);
}

double mean_difference(const std::vector<std::byte>& left, const std::vector<std::byte>& right) {
  double sum = 0;
  for (size_t i = 0; i < left.size(); ++i) {
    sum += std::abs(std::to_integer<int>(left[i]) - std::to_integer<int>(right[i]));
  }
  return sum / static_cast<double>(left.size());
}

TEST(ImageDecoder, WithoutATransformTheSizeMustMatch) {
  const auto decoder = make_decoder({.size = {30, 20}, .transform = ImageTransform::kNone});
  EXPECT_TRUE(try_decode(*decoder, jpeg({30, 20})).ok());
  EXPECT_THAT(try_decode(*decoder, jpeg({31, 20})).error().message(), HasSubstr("31 x 20"));
}

TEST(ImageDecoder, RowsDecodedInPlaceEqualThoseThatAreResampled) {
  const auto bytes = jpeg({50, 37});
  ImageOptions options{
      .size = {50, 37}, .transform = ImageTransform::kNone, .pixels = {.layout = Layout::kNhwc}};
  const auto in_place = try_decode(*make_decoder(options), bytes);
  options.transform = ImageTransform::kResize;  // to the same size
  const auto stored = try_decode(*make_decoder(options), bytes);
  EXPECT_EQ(*in_place, *stored);
}

TEST(ImageDecoder, ManyThreadsAndAResumedRunHaveTheSamePixels) {
  const auto decoder = make_decoder(
      {.size = {32, 32}, .flip_probability = 0.5, .pixels = {.type = PixelType::kF32}});
  std::vector<std::vector<std::byte>> samples;
  for (uint64_t i = 0; i < 12; ++i) {
    samples.push_back(jpeg({60 + static_cast<uint32_t>(i) * 5, 80}, i));
  }
  const auto context = [](size_t i) { return DecodeContext{SampleId{i}, Epoch{5}, 17}; };
  std::vector<std::vector<std::byte>> expected;
  for (size_t i = 0; i < samples.size(); ++i) {
    expected.push_back(*try_decode(*decoder, samples[i], context(i)));
  }
  std::vector<std::thread> threads;
  std::atomic<int> differences = 0;
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const auto scratch = decoder->make_scratch();
      // Each thread in its own order, as after a restart with another number of threads.
      for (size_t n = 0; n < samples.size() * 3; ++n) {
        const size_t i = (n * (t * 2 + 5) + t) % samples.size();
        const auto out = try_decode(*decoder, samples[i], context(i), scratch.get());
        if (!out.ok() || *out != expected[i]) ++differences;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(differences, 0);
}

TEST(ImageDecoder, AScratchCanBeReusedAfterABadSample) {
  const auto decoder = make_decoder({.size = {16, 16}});
  const auto scratch = decoder->make_scratch();
  const auto bytes = jpeg({64, 64});
  const auto expected = try_decode(*decoder, bytes);
  EXPECT_FALSE(
      try_decode(*decoder, ByteView(bytes.data(), bytes.size() / 3), {}, scratch.get()).ok());
  EXPECT_EQ(*try_decode(*decoder, bytes, {}, scratch.get()), *expected);
}

TEST(ImageDecoder, AScaledDecodeLooksLikeAFullOne) {
  const auto bytes = jpeg({512, 384});
  for (const auto transform : {ImageTransform::kResize, ImageTransform::kCentreCrop}) {
    ImageOptions options{.size = {96, 96}, .transform = transform};
    const auto scaled = try_decode(*make_decoder(options), bytes);
    options.scaled_decode = false;
    const auto full = try_decode(*make_decoder(options), bytes);
    EXPECT_NE(*scaled, *full);
    EXPECT_LT(mean_difference(*scaled, *full), 2.0);
  }
}

TEST(ImageDecoder, CentreCropIsTheMiddleOfTheResizedImage) {
  const auto bytes = jpeg({200, 100});
  const auto resized =
      try_decode(*make_decoder({.size = {100, 50}, .transform = ImageTransform::kResize}), bytes);
  const auto centre = try_decode(
      *make_decoder({.size = {40, 40}, .transform = ImageTransform::kCentreCrop, .resize_to = 50}),
      bytes);
  for (size_t c = 0; c < 3; ++c) {
    for (size_t y = 0; y < 40; ++y) {
      EXPECT_EQ(
          std::memcmp(&(*centre)[(c * 40 + y) * 40], &(*resized)[(c * 50 + y + 5) * 100 + 30], 40),
          0);
    }
  }
}

#ifdef MILLRACE_HAVE_PNG

TEST(ImageDecoder, APngIsTreatedLikeAJpeg) {
  const image::Pixels pixels = test_image({70, 50});
  const auto png = write_png(pixels.view());
  const auto jpeg_bytes = write_jpeg(pixels.view(), {.quality = 100, .halve_colour = false});
  const auto decoder = make_decoder({.size = {24, 24}, .flip_probability = 0.5});
  for (uint64_t i = 0; i < 8; ++i) {
    const DecodeContext context{.sample = SampleId{i}};
    const auto from_png = try_decode(*decoder, *png, context);
    const auto from_jpeg = try_decode(*decoder, *jpeg_bytes, context);
    EXPECT_LT(mean_difference(*from_png, *from_jpeg), 1.5);
  }
}

#endif
#endif

}  // namespace
}  // namespace millrace::format
