// Any bytes are an image or an error, and so they are as a mask; what is decoded has the announced
// size.
#include <cstdint>
#include <memory>
#include <vector>

#include "format/images/image_decoder.h"
#include "format/images/mask_decoder.h"

namespace {

using namespace millrace;

// The first byte selects the options: each takes another path through the decoders.
std::unique_ptr<format::ImageDecoder> decoder_of(uint8_t choice) {
  format::ImageOptions options{.size = {24, 20}, .flip_probability = 0.5};
  constexpr format::ImageTransform kTransforms[] = {
      format::ImageTransform::kNone, format::ImageTransform::kResize,
      format::ImageTransform::kCentreCrop, format::ImageTransform::kRandomResizedCrop};
  options.transform = kTransforms[choice & 3];
  options.accept_damage = (choice & 4) != 0;
  options.pixels.type = (choice & 8) != 0 ? image::PixelType::kF32 : image::PixelType::kU8;
  options.pixels.layout = (choice & 16) != 0 ? image::Layout::kNhwc : image::Layout::kNchw;
  options.max_pixels = 1 << 20;  // a round must not take seconds
  return *format::ImageDecoder::create(options);
}

// The same bytes as the mask of themselves.
void decode_mask(const format::ImageDecoder& decoder, ByteView sample) {
  const auto framing = decoder.framing_of(sample, {}, nullptr);
  if (!framing.ok()) return;
  const auto mask = *format::MaskDecoder::create(
      {.size = decoder.size(), .type = data::ElementType::kI64, .max_pixels = 1 << 20});
  const auto scratch = mask->make_scratch();
  std::vector<std::byte> out(mask->field().size_bytes());
  static_cast<void>(mask->decode(format::bytes_field("mask", sample), *framing, out, *scratch));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const auto decoder = decoder_of(data[0]);
  const auto scratch = decoder->make_scratch();
  // Exactly as large as announced, so that a sanitizer detects any write beyond it.
  std::vector<std::byte> out(decoder->fields()[0].size_bytes());
  const data::Output outputs[] = {MutableByteView(out)};
  const std::vector<uint8_t> sample(data + 1, data + size);
  if ((data[0] & 32) != 0) decode_mask(*decoder, std::as_bytes(std::span(sample)));
  for (uint64_t epoch = 0; epoch < 2; ++epoch) {
    const data::DecodeContext context{.epoch = data::Epoch{epoch}};
    static_cast<void>(
        decoder->decode(std::as_bytes(std::span(sample)), context, outputs, scratch.get()));
  }
  return 0;
}
