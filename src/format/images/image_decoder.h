// ImageDecoder: decodes JPEG and PNG samples into pixels of one size, with optional augmentation.
//
// Does in one step what usually takes several: chooses a part, decodes only that, resizes, mirrors,
// normalises, and writes each element of the batch once. All randomness is a function of (seed,
// epoch, sample), so a resumed run, or one with other threads, gets the same pixels.
// docs/design/images.md explains the design; docs/guide/transforms.md is for users.
#pragma once

#include <memory>
#include <span>

#include "data/decoder.h"
#include "image/crop.h"
#include "image/image.h"
#include "image/pixel_store.h"

namespace millrace::format {

enum class ImageTransform : uint8_t {
  kNone,               // no change: every image must already have the size
  kResize,             // resize the whole image, whatever its ratio
  kCentreCrop,         // resize the shorter side to resize_to, then take the middle
  kRandomResizedCrop,  // resize a random part
};

struct ImageOptions {
  image::Size size;  // of the sample
  ImageTransform transform = ImageTransform::kRandomResizedCrop;
  uint32_t resize_to = 0;  // for kCentreCrop; 0 for 8/7 of the longer side of size, as 256 for 224
  image::RandomCropOptions random_crop;
  double flip_probability = 0;  // of mirroring left to right
  image::PixelFormat pixels;
  bool antialias = true;
  // Decodes JPEGs at 1/2, 1/4 or 1/8 if that is still at least as large as the sample. Faster for
  // large images, but the pixels differ from those of a full decode.
  bool scaled_decode = true;
  bool accept_damage = false;  // decode damaged JPEGs, with gray for missing data
  uint64_t max_pixels = uint64_t{1} << 27;
};

class ImageDecoder final : public data::Decoder {
 public:
  // Fails if the options are invalid.
  static Result<std::unique_ptr<ImageDecoder>> create(const ImageOptions& options);

  // One field, "image": [3, height, width] or [height, width, 3].
  std::vector<data::FieldSpec> fields() const override;
  std::unique_ptr<data::Scratch> make_scratch() const override;
  image::Size size() const { return options_.size; }  // of the sample
  // If `scratch` is null, makes one for this call.
  Status decode(ByteView sample, const data::DecodeContext& context,
                std::span<const data::Output> outputs, data::Scratch* scratch) const override;

  // How the image becomes the sample, for fields that follow it. Reads only the header. If
  // `scratch` is null, makes one for this call.
  Result<image::Framing> framing_of(ByteView sample, const data::DecodeContext& context,
                                    data::Scratch* scratch) const;

  // The crop of an image of this size. Equal arguments give equal crops.
  image::Crop crop_of(image::Size image, const data::DecodeContext& context) const;

 private:
  explicit ImageDecoder(const ImageOptions& options);

  ImageOptions options_;
  image::PixelStore store_;
};

}  // namespace millrace::format
