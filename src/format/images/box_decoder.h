// BoxDecoder: decodes the bounding boxes of an image, which follow its crop, resize and flip.
//
// The boxes of a sample are an array [count, 4] or a list of four numbers each, of any numeric
// type; the result is ragged, [any, 4] of float32. Boxes that the crop leaves too little of are
// dropped (image/boxes.h). Stateless.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "data/array.h"
#include "data/decoder.h"
#include "format/format.h"
#include "image/boxes.h"

namespace millrace::format {

class BoxDecoder {
 public:
  // Fails if a minimum is negative or not finite.
  static Result<std::unique_ptr<BoxDecoder>> create(const image::BoxOptions& options,
                                                    const data::Ragged& ragged);

  data::FieldSpec field() const;  // "boxes"

  // What decode() keeps between samples, and what other fields of the sample need to drop the items
  // of the same boxes.
  struct Kept {
    std::vector<uint32_t> indexes;  // of the boxes that were not dropped
    uint64_t count = 0;             // of all boxes
    std::vector<float> numbers;     // of those that were not dropped
  };
  // Errors do not name the field.
  Status decode(const Field& field, const image::Framing& framing, const data::Output& output,
                Kept& kept) const;

 private:
  BoxDecoder(const image::BoxOptions& options, const data::Ragged& ragged)
      : options_(options), ragged_(ragged) {}

  image::BoxOptions options_;
  data::Ragged ragged_;
};

}  // namespace millrace::format
