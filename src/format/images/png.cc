#include "format/images/png.h"

#include <png.h>

#include <algorithm>
#include <bit>
#include <csetjmp>
#include <cstring>
#include <new>
#include <string>

namespace millrace::format {
namespace {

// libpng leaves a failed call with longjmp, which always lands in guarded(). The frames between
// guarded() and libpng must not have destructors.
struct PngErrors {
  std::jmp_buf landing;
  char message[256] = {};
};

[[noreturn]] void leave(png_structp handle, png_const_charp message) {
  auto* errors = static_cast<PngErrors*>(png_get_error_ptr(handle));
  std::strncpy(errors->message, message, sizeof errors->message - 1);
  std::longjmp(errors->landing, 1);
}

void on_warning(png_structp, png_const_charp) {}  // libraries do not print

template <typename Work>
Status guarded(PngErrors& errors, const Work& work) {
  if (setjmp(errors.landing) != 0) return fail(Errc::kCorrupt, "PNG: {}", errors.message);
  work();
  return {};
}

struct Input {
  ByteView rest;
};

void take_bytes(png_structp handle, png_bytep out, size_t count) {
  auto* input = static_cast<Input*>(png_get_io_ptr(handle));
  if (count > input->rest.size()) png_error(handle, "the data ends before the image does");
  std::memcpy(out, input->rest.data(), count);
  input->rest = input->rest.subspan(count);
}

void put_bytes(png_structp handle, png_bytep bytes, size_t count) {
  auto* out = static_cast<std::vector<std::byte>*>(png_get_io_ptr(handle));
  const auto* first = reinterpret_cast<const std::byte*>(bytes);
  bool is_kept = true;
  try {
    out->insert(out->end(), first, first + count);
  } catch (const std::bad_alloc&) {
    is_kept = false;  // libpng is C: no exception may pass through it
  }
  if (!is_kept) png_error(handle, "no memory left for the encoded image");
}

void no_flush(png_structp) {}

uint32_t big_endian(ByteView bytes) {
  uint32_t number = 0;
  for (const std::byte byte : bytes.first(4))
    number = number << 8 | std::to_integer<uint32_t>(byte);
  return number;
}

// The size that the header claims. Checked before libpng reads anything: small chunks after the
// header may inflate to gigabytes.
Result<image::Size> claimed_size(ByteView bytes) {
  constexpr size_t kHeaderEnd = 8 + 8 + 8;  // signature, length and kind of IHDR, width and height
  if (bytes.size() < kHeaderEnd || text_of(bytes.subspan(12, 4)) != "IHDR") {
    return fail(Errc::kCorrupt, "PNG: the header (IHDR) is missing");
  }
  return image::Size{big_endian(bytes.subspan(16)), big_endian(bytes.subspan(20))};
}

class Reader final : public PngReader {
 public:
  explicit Reader(const PngOptions& options) : options_(options) {}
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  ~Reader() override { close(); }

  Result<image::Size> open(ByteView bytes) override {
    close();  // libpng cannot reuse a handle
    if (!is_png(bytes)) return fail(Errc::kCorrupt, "not a PNG: its first eight bytes differ");
    ASSIGN_OR_RETURN(const image::Size claimed, claimed_size(bytes));
    if (uint64_t{claimed.width} * claimed.height > options_.max_pixels) {
      return fail(Errc::kExhausted,
                  "PNG: the header claims {} x {} pixels, but at most {} are allowed (max_pixels)",
                  claimed.width, claimed.height, options_.max_pixels);
    }
    input_.rest = bytes;
    handle_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, &errors_, &leave, &on_warning);
    if (handle_ != nullptr) info_ = png_create_info_struct(handle_);
    if (info_ == nullptr) return fail(Errc::kExhausted, "PNG: no memory left for a decoder");
    RETURN_IF_ERROR(guarded(errors_, [&] {
      png_set_read_fn(handle_, &input_, &take_bytes);
      skip_other_chunks();
      png_read_info(handle_, info_);
    }));
    if (options_.values && (color_type() & PNG_COLOR_MASK_COLOR) != 0 &&
        color_type() != PNG_COLOR_TYPE_PALETTE) {
      return fail(Errc::kUnsupported,
                  "PNG: it has red, green and blue, but a mask has one value per pixel; save it "
                  "as gray or with a palette");
    }
    return image::Size{png_get_image_width(handle_, info_), png_get_image_height(handle_, info_)};
  }

  size_t pixel_bytes() const override {
    if (!options_.values) return image::kChannels;
    return png_get_bit_depth(handle_, info_) == 16 ? 2 : 1;
  }

  Status read(const image::Rect& window, image::RowSink& sink) override {
    int passes = 1;
    size_t row_bytes = 0;
    RETURN_IF_ERROR(guarded(errors_, [&] { passes = start_decoding(&row_bytes); }));
    const uint32_t width = png_get_image_width(handle_, info_);
    if (row_bytes != size_t{width} * pixel_bytes()) {
      return fail(Errc::kUnsupported, "PNG: a row of {} pixels would have {} bytes, not {} each",
                  width, row_bytes, pixel_bytes());
    }
    sink.begin({.lead_pixels = window.x, .total_pixels = width, .row_count = window.height});
    if (passes > 1) return read_interlaced(window, passes, sink);
    row_.resize(row_bytes);
    return guarded(errors_, [&] {
      for (uint32_t y = 0; y < window.y; ++y) png_read_row(handle_, row_.data(), nullptr);
      for (uint32_t y = 0; y < window.height; ++y) {
        png_read_row(handle_, sink.room(), nullptr);
        sink.row_done();
      }
    });
  }

 private:
  // Text, colour profiles and the like do not change pixels here. By default libpng would inflate
  // and keep up to a thousand of them, of up to 8 MB each.
  void skip_other_chunks() {
    png_set_keep_unknown_chunks(handle_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);  // -1: all of them
    png_set_chunk_cache_max(handle_, 1);
    png_set_chunk_malloc_max(handle_, png_alloc_size_t{1} << 20);
  }

  uint8_t color_type() const { return png_get_color_type(handle_, info_); }

  // Returns the number of passes.
  int start_decoding(size_t* row_bytes) {
    if (options_.values) {
      png_set_packing(handle_);  // fewer than eight bits: one byte each, unscaled
      if constexpr (std::endian::native == std::endian::little) png_set_swap(handle_);
    } else {
      png_set_expand(handle_);  // palettes, and gray of fewer than eight bits
      png_set_strip_16(handle_);
      png_set_gray_to_rgb(handle_);
    }
    png_set_strip_alpha(handle_);
    const int passes = png_set_interlace_handling(handle_);
    png_read_update_info(handle_, info_);
    *row_bytes = png_get_rowbytes(handle_, info_);
    return passes;
  }

  Status read_interlaced(const image::Rect& window, int passes, image::RowSink& sink) {
    const uint32_t height = png_get_image_height(handle_, info_);
    const size_t row_bytes = png_get_rowbytes(handle_, info_);
    whole_.resize(row_bytes * height);
    RETURN_IF_ERROR(guarded(errors_, [&] {
      for (int pass = 0; pass < passes; ++pass) {
        for (uint32_t y = 0; y < height; ++y) {
          png_read_row(handle_, whole_.data() + y * row_bytes, nullptr);
        }
      }
    }));
    for (uint32_t y = 0; y < window.height; ++y) {
      std::memcpy(sink.room(), whole_.data() + (window.y + y) * row_bytes, row_bytes);
      sink.row_done();
    }
    return {};
  }

  void close() {
    png_destroy_read_struct(&handle_, &info_, nullptr);
    handle_ = nullptr;
    info_ = nullptr;
  }

  PngOptions options_;
  PngErrors errors_{};
  Input input_;
  png_structp handle_ = nullptr;
  png_infop info_ = nullptr;
  std::vector<uint8_t> row_;    // rows above the window
  std::vector<uint8_t> whole_;  // of an interlaced image
};

struct Encoder {
  PngErrors errors{};
  std::vector<std::byte> out;
  png_structp handle = nullptr;
  png_infop info = nullptr;

  Encoder() = default;
  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;
  ~Encoder() { png_destroy_write_struct(&handle, &info); }
};

}  // namespace

Result<std::unique_ptr<PngReader>> PngReader::create(const PngOptions& options) {
  return std::unique_ptr<PngReader>(std::make_unique<Reader>(options));
}

Result<std::vector<std::byte>> write_png(const image::ImageView& image,
                                         const PngWriteOptions& options) {
  if (image.size.width == 0 || image.size.height == 0) {
    return fail(Errc::kInvalidArgument, "a PNG has at least one pixel, not {} x {}",
                image.size.width, image.size.height);
  }
  const auto encoder = std::make_unique<Encoder>();
  encoder->handle =
      png_create_write_struct(PNG_LIBPNG_VER_STRING, &encoder->errors, &leave, &on_warning);
  if (encoder->handle != nullptr) encoder->info = png_create_info_struct(encoder->handle);
  if (encoder->info == nullptr) return fail(Errc::kExhausted, "PNG: no memory left for an encoder");
  RETURN_IF_ERROR(guarded(encoder->errors, [&] {
    png_set_write_fn(encoder->handle, &encoder->out, &put_bytes, &no_flush);
    png_set_IHDR(encoder->handle, encoder->info, image.size.width, image.size.height, 8,
                 options.is_gray ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(encoder->handle, encoder->info);
    for (uint32_t y = 0; y < image.size.height; ++y) png_write_row(encoder->handle, image.row(y));
    png_write_end(encoder->handle, nullptr);
  }));
  return std::move(encoder->out);
}

}  // namespace millrace::format
