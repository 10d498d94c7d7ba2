#include <cstdlib>
#include <memory>

#include "format/images/jpeg.h"
#include "format/images/jpeg_library.h"

namespace millrace::format {
namespace {

struct Encoder {
  JpegErrors errors{};
  jpeg_compress_struct handle{};
  unsigned char* bytes = nullptr;  // allocated by libjpeg with malloc
  unsigned long size_bytes = 0;

  Encoder() = default;
  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;
  ~Encoder() {
    jpeg_destroy_compress(&handle);
    std::free(bytes);
  }
};

void configure(jpeg_compress_struct& handle, const image::ImageView& image,
               const JpegWriteOptions& options) {
  handle.image_width = image.size.width;
  handle.image_height = image.size.height;
  handle.input_components = options.is_gray ? 1 : image::kChannels;
  handle.in_color_space = options.is_gray ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&handle);
  jpeg_set_quality(&handle, options.quality, TRUE);
  const bool halves = options.halve_colour && !options.is_gray;
  handle.comp_info[0].h_samp_factor = halves ? 2 : 1;
  handle.comp_info[0].v_samp_factor = halves ? 2 : 1;
  if (options.restarts) handle.restart_in_rows = 1;
  if (options.progressive) jpeg_simple_progression(&handle);
}

void encode(Encoder& encoder, const image::ImageView& image, const JpegWriteOptions& options) {
  jpeg_compress_struct& handle = encoder.handle;
  jpeg_create_compress(&handle);
  jpeg_mem_dest(&handle, &encoder.bytes, &encoder.size_bytes);
  configure(handle, image, options);
  jpeg_start_compress(&handle, TRUE);
  for (uint32_t y = 0; y < image.size.height; ++y) {
    auto* row = const_cast<JSAMPLE*>(image.row(y));  // libjpeg only reads it
    jpeg_write_scanlines(&handle, &row, 1);
  }
  jpeg_finish_compress(&handle);
}

}  // namespace

Result<std::vector<std::byte>> write_jpeg(const image::ImageView& image,
                                          const JpegWriteOptions& options) {
  if (image.size.width == 0 || image.size.height == 0 || image.size.width > JPEG_MAX_DIMENSION ||
      image.size.height > JPEG_MAX_DIMENSION) {
    return fail(Errc::kInvalidArgument, "a JPEG is 1 to {} pixels wide and high, not {} x {}",
                JPEG_MAX_DIMENSION, image.size.width, image.size.height);
  }
  if (options.quality < 1 || options.quality > 100) {
    return fail(Errc::kInvalidArgument, "the quality of a JPEG is 1 to 100, not {}",
                options.quality);
  }
  const auto encoder = std::make_unique<Encoder>();
  encoder->handle.err = prepare(encoder->errors);
  RETURN_IF_ERROR(guarded(encoder->errors, [&] { encode(*encoder, image, options); }));
  const auto* first = reinterpret_cast<const std::byte*>(encoder->bytes);
  return std::vector<std::byte>(first, first + encoder->size_bytes);
}

}  // namespace millrace::format
