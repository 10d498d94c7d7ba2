// ImageDecoder: JPEG and PNG samples into pixels of one size, augmented if so wished.
//
// What a recipe usually does in several steps is one here: choose a part, decode no more than that,
// resize, mirror, normalise, and write each element of the batch once. All that is random is a
// function of (seed, epoch, sample): a resumed run, or one with other threads, has the same pixels.
// docs/design/images.md has the choices; docs/guide/transforms.md is for users.
#pragma once

#include <memory>
#include <span>

#include "data/decoder.h"
#include "image/crop.h"
#include "image/image.h"
#include "image/pixel_store.h"

namespace millrace::format {

enum class ImageTransform : uint8_t {
  kNone,               // the pixels as they are: every image must have the size
  kResize,             // the whole image to the size, whatever its ratio
  kCentreCrop,         // the shorter side to resize_to, then the size from the middle
  kRandomResizedCrop,  // a random part to the size
};

struct ImageOptions {
  image::Size size;  // of the sample
  ImageTransform transform = ImageTransform::kRandomResizedCrop;
  uint32_t resize_to = 0;  // for kCentreCrop; 0: 8/7 of the longer side of size, as 256 to 224
  image::RandomCropOptions random_crop;
  double flip_probability = 0;  // mirrored left to right
  image::PixelFormat pixels;
  bool antialias = true;
  // Decodes JPEGs at 1/2, 1/4 or 1/8 where that is still no smaller than the sample. Quicker for
  // large images, and not the same pixels as a full decode.
  bool scaled_decode = true;
  bool accept_damage = false;  // JPEGs that are damaged, with gray where data is missing
  uint64_t max_pixels = uint64_t{1} << 27;
};

class ImageDecoder final : public data::Decoder {
 public:
  // Fails where the options make no sense.
  static Result<std::unique_ptr<ImageDecoder>> create(const ImageOptions& options);

  // One field, "image": [3, height, width] or [height, width, 3].
  std::vector<data::FieldSpec> fields() const override;
  std::unique_ptr<data::Scratch> make_scratch() const override;
  // Without a scratch of make_scratch() one is made for the call.
  Status decode(ByteView sample, const data::DecodeContext& context,
                std::span<const MutableByteView> outputs, data::Scratch* scratch) const override;

  // What becomes of an image of this size; equal arguments give equal crops.
  image::Crop crop_of(image::Size image, const data::DecodeContext& context) const;

 private:
  explicit ImageDecoder(const ImageOptions& options);

  ImageOptions options_;
  image::PixelStore store_;
};

}  // namespace millrace::format
