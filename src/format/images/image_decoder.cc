#include "format/images/image_decoder.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <optional>

#include "base/numbers/counter_random.h"
#include "format/images/jpeg.h"
#include "format/images/png.h"
#include "image/resampler.h"
#include "image/row_sink.h"

namespace millrace::format {
namespace {

using image::Layout;
using image::PixelType;

// Separates the random numbers for images from those for shuffling.
constexpr uint64_t kImagesKey = 0x696d61676573;  // "images"

// Writes decoded rows straight into the batch, unchanged.
class WholeRows final : public image::RowSink {
 public:
  explicit WholeRows(uint8_t* out) : next_(out) {}

  void begin(const image::RowRun& run) override {
    row_bytes_ = size_t{run.total_pixels} * image::kChannels;
  }
  uint8_t* room() override { return next_; }
  void row_done() override { next_ += row_bytes_; }

 private:
  uint8_t* next_;
  size_t row_bytes_ = 0;
};

// An encoded image of either format whose header was read.
class Encoded {
 public:
  Encoded(JpegReader* jpeg, PngReader* png, image::Size size)
      : jpeg_(jpeg), png_(png), size_(size) {}

  image::Size size() const { return size_; }
  image::Size size_at(uint32_t eighths) const { return jpeg_ ? jpeg_->size_at(eighths) : size_; }
  bool is_scalable() const { return jpeg_ != nullptr; }

  Status read(const image::Rect& window, uint32_t eighths, image::RowSink& sink) const {
    return jpeg_ ? jpeg_->read(window, eighths, sink) : png_->read(window, sink);
  }

 private:
  JpegReader* jpeg_;  // or
  PngReader* png_;
  image::Size size_;
};

class ImageScratch final : public data::Scratch {
 public:
  explicit ImageScratch(const ImageOptions& options) : options_(options) {}

  Result<Encoded> open(ByteView sample) {
    if (is_jpeg(sample)) {
      if (!jpeg_) {
        ASSIGN_OR_RETURN(jpeg_, JpegReader::create({.max_pixels = options_.max_pixels,
                                                    .accept_damage = options_.accept_damage}));
      }
      ASSIGN_OR_RETURN(const image::Size size, jpeg_->open(sample));
      return Encoded(jpeg_.get(), nullptr, size);
    }
    if (is_png(sample)) {
      if (!png_) {
        ASSIGN_OR_RETURN(png_, PngReader::create({.max_pixels = options_.max_pixels}));
      }
      ASSIGN_OR_RETURN(const image::Size size, png_->open(sample));
      return Encoded(nullptr, png_.get(), size);
    }
    return fail(Errc::kUnsupported,
                "its {} bytes are neither a JPEG nor a PNG; other image formats are not supported",
                sample.size());
  }

  image::Resampler& resampler() { return resampler_; }

 private:
  const ImageOptions& options_;
  std::unique_ptr<JpegReader> jpeg_;
  std::unique_ptr<PngReader> png_;
  image::Resampler resampler_;
};

data::ElementType element_type(PixelType type) {
  switch (type) {
    case PixelType::kU8:
      return data::ElementType::kU8;
    case PixelType::kF16:
      return data::ElementType::kF16;
    case PixelType::kBf16:
      return data::ElementType::kBf16;
    case PixelType::kF32:
      return data::ElementType::kF32;
  }
  return data::ElementType::kU8;
}

Status check_crop(const image::RandomCropOptions& crop) {
  if (!(crop.area_min > 0 && crop.area_min <= crop.area_max && crop.area_max <= 1)) {
    return fail(Errc::kInvalidArgument,
                "the area of a random crop must be a range between 0 and 1, not {} to {}",
                crop.area_min, crop.area_max);
  }
  if (!(crop.ratio_min > 0 && crop.ratio_min <= crop.ratio_max && std::isfinite(crop.ratio_max))) {
    return fail(Errc::kInvalidArgument,
                "the ratio of a random crop must be a range above 0, not {} to {}", crop.ratio_min,
                crop.ratio_max);
  }
  return {};
}

Status check(const ImageOptions& options) {
  constexpr uint32_t kMaxSide = 1 << 15;
  const image::Size size = options.size;
  if (size.width == 0 || size.height == 0 || size.width > kMaxSide || size.height > kMaxSide) {
    return fail(Errc::kInvalidArgument,
                "an image sample must be 1 to {} pixels wide and high, not {} x {}", kMaxSide,
                size.width, size.height);
  }
  if (options.resize_to != 0 && options.resize_to < std::max(size.width, size.height)) {
    return fail(
        Errc::kInvalidArgument,
        "cannot crop {} x {} pixels from an image resized to {}; resize_to must be at least "
        "as large",
        size.width, size.height, options.resize_to);
  }
  if (!(options.flip_probability >= 0 && options.flip_probability <= 1)) {
    return fail(Errc::kInvalidArgument, "the probability of a flip must be 0 to 1, not {}",
                options.flip_probability);
  }
  for (size_t c = 0; c < image::kChannels; ++c) {
    const float deviation = options.pixels.deviation[c];
    if (!std::isfinite(options.pixels.mean[c]) || !std::isfinite(deviation) || deviation == 0) {
      return fail(Errc::kInvalidArgument,
                  "channel {} cannot be normalised by mean {} and standard deviation {}", c,
                  options.pixels.mean[c], deviation);
    }
  }
  return check_crop(options.random_crop);
}

uint32_t default_resize(image::Size size) { return std::max(size.width, size.height) * 8 / 7; }

// The smallest scale at which the crop is still at least as large as the sample. Not 3/8 and the
// like: libjpeg-turbo has those only in plain C, which is slower than decoding at full size.
uint32_t decode_eighths(const image::Box& box, image::Size target) {
  uint32_t eighths = 8;
  while (eighths > 1 && box.width * eighths >= 16.0 * target.width &&
         box.height * eighths >= 16.0 * target.height) {
    eighths /= 2;
  }
  return eighths;
}

// Whether the decoded rows are the sample, without any change.
bool is_direct(const ImageOptions& options, const image::Crop& crop) {
  return options.transform == ImageTransform::kNone && !crop.flip &&
         options.pixels.type == PixelType::kU8 && options.pixels.layout == Layout::kNhwc;
}

}  // namespace

Result<std::unique_ptr<ImageDecoder>> ImageDecoder::create(const ImageOptions& options) {
  RETURN_IF_ERROR(check(options));
  return std::unique_ptr<ImageDecoder>(new ImageDecoder(options));
}

ImageDecoder::ImageDecoder(const ImageOptions& options)
    : options_(options), store_(options.pixels) {
  if (options_.resize_to == 0) options_.resize_to = default_resize(options_.size);
}

std::vector<data::FieldSpec> ImageDecoder::fields() const {
  const uint64_t width = options_.size.width;
  const uint64_t height = options_.size.height;
  const bool is_planar = options_.pixels.layout == Layout::kNchw;
  return {{.name = "image",
           .type = element_type(options_.pixels.type),
           .shape = is_planar ? data::Shape{image::kChannels, height, width}
                              : data::Shape{height, width, image::kChannels}}};
}

std::unique_ptr<data::Scratch> ImageDecoder::make_scratch() const {
  return std::make_unique<ImageScratch>(options_);
}

image::Crop ImageDecoder::crop_of(image::Size image, const data::DecodeContext& context) const {
  const uint64_t epoch_key =
      CounterRandom(context.seed ^ kImagesKey, data::number_of(context.epoch)).at(0);
  CounterRandom random(epoch_key, data::index_of(context.sample));
  // First, so that the flip does not depend on how many random numbers the crop takes.
  const bool flip = random.uniform() < options_.flip_probability;
  image::Crop crop;
  switch (options_.transform) {
    case ImageTransform::kNone:
    case ImageTransform::kResize:
      crop = image::whole_image(image);
      break;
    case ImageTransform::kCentreCrop:
      crop = image::centre_crop(image, options_.resize_to, options_.size);
      break;
    case ImageTransform::kRandomResizedCrop:
      crop = image::random_resized_crop(image, options_.random_crop, random);
      break;
  }
  crop.flip = flip;
  return crop;
}

Result<image::Framing> ImageDecoder::framing_of(ByteView sample, const data::DecodeContext& context,
                                                data::Scratch* scratch) const {
  std::optional<ImageScratch> own;
  auto* kept = static_cast<ImageScratch*>(scratch);
  if (kept == nullptr) kept = &own.emplace(options_);
  ASSIGN_OR_RETURN(const Encoded encoded, kept->open(sample));
  return image::Framing{
      .image = encoded.size(), .crop = crop_of(encoded.size(), context), .target = options_.size};
}

Status ImageDecoder::decode(ByteView sample, const data::DecodeContext& context,
                            std::span<const data::Output> outputs, data::Scratch* scratch) const {
  assert(outputs.size() == 1 && outputs[0].bytes().size() == store_.size_bytes(options_.size));
  std::optional<ImageScratch> own;
  auto* kept = static_cast<ImageScratch*>(scratch);
  if (kept == nullptr) kept = &own.emplace(options_);
  ASSIGN_OR_RETURN(const Encoded encoded, kept->open(sample));
  const image::Size size = encoded.size();
  if (options_.transform == ImageTransform::kNone && size != options_.size) {
    return fail(Errc::kInvalidArgument,
                "the image has {} x {} pixels, but the batch has {} x {}; choose a transform that "
                "resizes",
                size.width, size.height, options_.size.width, options_.size.height);
  }
  image::Crop crop = crop_of(size, context);
  if (is_direct(options_, crop)) {
    WholeRows rows(reinterpret_cast<uint8_t*>(outputs[0].bytes().data()));
    return encoded.read(crop.bounds, 8, rows);
  }
  uint32_t eighths = 8;
  if (options_.scaled_decode && encoded.is_scalable()) {
    eighths = decode_eighths(crop.box, options_.size);
    if (eighths != 8) crop = image::scaled_crop(crop, eighths, encoded.size_at(eighths));
  }
  image::Resampler& resampler = kept->resampler();
  const image::Rect window = resampler.plan(crop, options_.size, options_.antialias);
  resampler.direct(store_, outputs[0].bytes().data());
  RETURN_IF_ERROR(encoded.read(window, eighths, resampler));
  assert(resampler.complete());
  return {};
}

}  // namespace millrace::format
