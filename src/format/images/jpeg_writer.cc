#include <array>
#include <memory>
#include <vector>

#include "format/images/jpeg.h"
#include "format/images/jpeg_library.h"

namespace millrace::format {
namespace {

// Not jpeg_mem_dest(): after an error it leaves a pointer to memory that it has freed.
struct Encoder {
  JpegErrors errors{};
  jpeg_compress_struct handle{};
  jpeg_destination_mgr output{};
  std::array<JOCTET, 16384> block;
  std::vector<std::byte> bytes;

  Encoder() = default;
  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;
  ~Encoder() { jpeg_destroy_compress(&handle); }
};

void begin_block(j_compress_ptr handle) {
  auto& encoder = *static_cast<Encoder*>(handle->client_data);
  encoder.output.next_output_byte = encoder.block.data();
  encoder.output.free_in_buffer = encoder.block.size();
}

// Appends the first `count` bytes of the block.
void append_block(j_compress_ptr handle, size_t count) {
  auto& encoder = *static_cast<Encoder*>(handle->client_data);
  const auto* first = reinterpret_cast<const std::byte*>(encoder.block.data());
  encoder.bytes.insert(encoder.bytes.end(), first, first + count);
}

boolean end_block(j_compress_ptr handle) {
  append_block(handle, static_cast<Encoder*>(handle->client_data)->block.size());
  begin_block(handle);
  return TRUE;
}

void end_output(j_compress_ptr handle) {
  const auto& encoder = *static_cast<Encoder*>(handle->client_data);
  append_block(handle, encoder.block.size() - encoder.output.free_in_buffer);
}

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
  if (options.progressive) jpeg_simple_progression(&handle);
}

void encode(Encoder& encoder, const image::ImageView& image, const JpegWriteOptions& options) {
  jpeg_compress_struct& handle = encoder.handle;
  jpeg_create_compress(&handle);
  handle.client_data = &encoder;
  handle.dest = &encoder.output;
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
  encoder->output = {.next_output_byte = nullptr,
                     .free_in_buffer = 0,
                     .init_destination = &begin_block,
                     .empty_output_buffer = &end_block,
                     .term_destination = &end_output};
  RETURN_IF_ERROR(guarded(encoder->errors, [&] { encode(*encoder, image, options); }));
  return std::move(encoder->bytes);
}

}  // namespace millrace::format
