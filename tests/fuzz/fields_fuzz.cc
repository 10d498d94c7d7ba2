// Any bytes are a sample of ragged fields, text, a mask and boxes, or an error. It is a bug if a
// ragged field has another size than its length, or more items than allowed, or if boxes and their
// classes differ in number.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "data/decoded_sample.h"
#include "format/arrays/array_decoder.h"
#include "format/images/image_decoder.h"

namespace {

using namespace millrace;
using data::ElementType;

data::FieldSpec ragged(const char* name, ElementType type, data::Shape item = {},
                       data::Ragged how = {}) {
  return {.name = name, .type = type, .shape = item, .ragged = how};
}

constexpr uint64_t kLengthMax = 8;

std::vector<format::FieldChoice> choices() {
  const std::shared_ptr<const format::ImageDecoder> image = *format::ImageDecoder::create(
      {.size = {9, 7}, .flip_probability = 0.5, .max_pixels = 1 << 16});
  const std::shared_ptr<const format::MaskDecoder> mask =
      *format::MaskDecoder::create({.size = {9, 7}, .max_pixels = 1 << 16});
  const std::shared_ptr<const format::BoxDecoder> boxes = *format::BoxDecoder::create({}, {});
  return {{.from = "class.npy;class",
           .spec = ragged("class", ElementType::kI64),
           .follows = "box.npy;box"},
          {.from = "box.npy;box", .spec = boxes->field(), .boxes = boxes, .follows = "png"},
          {.from = "png", .spec = image->fields()[0], .decoder = image},
          {.from = "mask.png;png", .spec = mask->field(), .mask = mask, .follows = "png"},
          {.from = "txt", .spec = ragged("txt", ElementType::kU8, {}, {.length_max = kLengthMax})},
          {.from = "xy.npy;xy",
           .spec = ragged("xy", ElementType::kF32, {2},
                          {.length_max = kLengthMax, .truncates = true})}};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const char* const names[] = {"tar", "tfrecord", "npz"};
  const std::shared_ptr<const format::Format> format =
      *format::open_format(names[data[0] % std::size(names)]);
  const auto decoder = *format::make_field_decoder(format, choices());
  const auto scratch = decoder->make_scratch();
  data::DecodedSample decoded(decoder->fields());
  const std::vector<uint8_t> sample(data + 1, data + size);
  if (!decoder->decode(std::as_bytes(std::span(sample)), {}, decoded.outputs(), scratch.get())
           .ok()) {
    return 0;
  }
  for (size_t i = 0; i < decoded.fields().size(); ++i) {
    const data::FieldSpec& spec = decoded.fields()[i];
    if (!spec.is_ragged()) continue;
    if (decoded.bytes(i).size() != decoded.length(i) * spec.size_bytes()) std::abort();
    if (spec.ragged->length_max != 0 && decoded.length(i) > kLengthMax) std::abort();
  }
  if (decoded.length(0) != decoded.length(1)) std::abort();
  return 0;
}
