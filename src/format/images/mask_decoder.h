// MaskDecoder: decodes the mask of an image: one class per pixel, cut and mirrored as its image is.
//
// A mask is a gray PNG or one with a palette, whose values are the classes as they are stored, or
// an array of integers [height, width]. Resizing takes the nearest pixel (image/nearest.h), because
// a blend of two classes is a third. Stateless, and used by many threads at once.
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "data/array.h"
#include "data/decoder.h"
#include "format/format.h"
#include "image/crop.h"

namespace millrace::format {

struct MaskOptions {
  image::Size size;  // of the sample: that of its image
  data::ElementType type = data::ElementType::kU8;
  uint64_t max_pixels = uint64_t{1} << 27;
};

class MaskDecoder {
 public:
  // Fails if the type is not an integer.
  static Result<std::unique_ptr<MaskDecoder>> create(const MaskOptions& options);

  data::FieldSpec field() const;  // "mask": [height, width]
  std::unique_ptr<data::Scratch> make_scratch() const;

  // Fills `out`. Fails if the mask has another size than the image. Errors do not name the field.
  // REQUIRES: framing.target is the size; a scratch of make_scratch().
  Status decode(const Field& field, const image::Framing& framing, MutableByteView out,
                data::Scratch& scratch) const;

 private:
  explicit MaskDecoder(const MaskOptions& options) : options_(options) {}

  MaskOptions options_;
};

}  // namespace millrace::format
