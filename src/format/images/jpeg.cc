#include "format/images/jpeg.h"

#include <cassert>

#include "format/images/jpeg_library.h"

namespace millrace::format {
namespace {

// Encoders write about ten scans. A file with thousands only wastes time.
constexpr int kMaxScans = 500;

// Extra pixels on each side, so that a part of a row gets the same pixels as in the whole image:
// colour at half resolution is interpolated from its neighbours.
constexpr uint32_t kMarginPixels = 2;

// ---- the bytes, all of which are in memory ------------------------------------------------------

void source_ready(j_decompress_ptr) {}

// The data ended before the image did. Supplies an end marker; the missing rows count as damage,
// unless only the end marker itself was missing.
boolean source_fill(j_decompress_ptr handle) {
  static const JOCTET kEnd[] = {0xFF, JPEG_EOI};
  handle->src->next_input_byte = kEnd;
  handle->src->bytes_in_buffer = sizeof kEnd;
  return TRUE;
}

void source_skip(j_decompress_ptr handle, long count) {
  if (count <= 0) return;
  const size_t skipped = std::min(static_cast<size_t>(count), handle->src->bytes_in_buffer);
  handle->src->next_input_byte += skipped;
  handle->src->bytes_in_buffer -= skipped;
}

void on_progress(j_common_ptr handle) {
  auto* decoder = reinterpret_cast<j_decompress_ptr>(handle);
  if (decoder->input_scan_number > kMaxScans) ERREXIT(handle, JERR_INPUT_EOF);
}

// ---- colour -------------------------------------------------------------------------------------

// Adobe writes CMYK inverted. Files of others are read in the same way, as in Pillow.
void rgb_of_cmyk(const uint8_t* cmyk, uint32_t pixels, uint8_t* rgb) {
  for (uint32_t x = 0; x < pixels; ++x, cmyk += 4, rgb += 3) {
    const uint32_t key = cmyk[3];
    for (int c = 0; c < 3; ++c) rgb[c] = static_cast<uint8_t>((cmyk[c] * key + 127) / 255);
  }
}

class Reader final : public JpegReader {
 public:
  explicit Reader(const JpegOptions& options) : options_(options) {
    errors_.accept_damage = options.accept_damage;
  }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  ~Reader() override { jpeg_destroy_decompress(&handle_); }

  Status start() {
    handle_.err = prepare(errors_);
    return guarded(errors_, [&] {
      jpeg_create_decompress(&handle_);
      handle_.src = &source_;
      handle_.progress = &progress_;
      source_.init_source = &source_ready;
      source_.fill_input_buffer = &source_fill;
      source_.skip_input_data = &source_skip;
      source_.resync_to_restart = &jpeg_resync_to_restart;
      source_.term_source = &source_ready;
      progress_.progress_monitor = &on_progress;
    });
  }

  Result<image::Size> open(ByteView bytes) override {
    jpeg_abort_decompress(&handle_);  // drops what was not read of the last image
    if (!is_jpeg(bytes)) return fail(Errc::kCorrupt, "not a JPEG: it does not begin with FF D8 FF");
    source_.next_input_byte = reinterpret_cast<const JOCTET*>(bytes.data());
    source_.bytes_in_buffer = bytes.size();
    RETURN_IF_ERROR(guarded(errors_, [&] { jpeg_read_header(&handle_, TRUE); }));
    const image::Size size{handle_.image_width, handle_.image_height};
    if (uint64_t{size.width} * size.height > options_.max_pixels) {
      return fail(Errc::kExhausted,
                  "JPEG: the header claims {} x {} pixels, but at most {} are allowed "
                  "(max_pixels)",
                  size.width, size.height, options_.max_pixels);
    }
    return size;
  }

  image::Size size_at(uint32_t eighths) const override {
    const auto scaled = [&](uint32_t side) {
      return static_cast<uint32_t>((uint64_t{side} * eighths + 7) / 8);
    };
    return {scaled(handle_.image_width), scaled(handle_.image_height)};
  }

  Status read(const image::Rect& window, uint32_t eighths, image::RowSink& sink) override {
    RETURN_IF_ERROR(guarded(errors_, [&] { start_decoding(eighths); }));
    assert(window.x + window.width <= handle_.output_width);
    assert(window.y + window.height <= handle_.output_height);
    image::RowRun run{.row_count = window.height};
    RETURN_IF_ERROR(guarded(errors_, [&] { select_columns(window, run); }));
    sink.begin(run);
    is_cmyk_ = handle_.output_components == 4;
    if (is_cmyk_) cmyk_row_.resize(size_t{run.total_pixels} * 4);
    RETURN_IF_ERROR(guarded(errors_, [&] { read_rows(window, sink); }));
    // Not jpeg_finish_decompress: that would parse the rows below the window.
    jpeg_abort_decompress(&handle_);
    return {};
  }

 private:
  void start_decoding(uint32_t eighths) {
    const bool is_cmyk =
        handle_.jpeg_color_space == JCS_CMYK || handle_.jpeg_color_space == JCS_YCCK;
    handle_.out_color_space = is_cmyk ? JCS_CMYK : JCS_RGB;
    handle_.scale_num = eighths;
    handle_.scale_denom = 8;
    handle_.dct_method = JDCT_ISLOW;
    jpeg_start_decompress(&handle_);
  }

  void select_columns(const image::Rect& window, image::RowRun& run) {
    const uint32_t whole = handle_.output_width;
    JDIMENSION begin = window.x > kMarginPixels ? window.x - kMarginPixels : 0;
    JDIMENSION width = std::min(window.x + window.width + kMarginPixels, whole) - begin;
    if (width < whole) jpeg_crop_scanline(&handle_, &begin, &width);
    run.lead_pixels = window.x - begin;
    run.total_pixels = handle_.output_width;
  }

  void read_rows(const image::Rect& window, image::RowSink& sink) {
    if (window.y > 0) jpeg_skip_scanlines(&handle_, window.y);
    for (uint32_t y = 0; y < window.height; ++y) {
      uint8_t* room = sink.room();
      JSAMPROW row = is_cmyk_ ? cmyk_row_.data() : room;
      jpeg_read_scanlines(&handle_, &row, 1);
      if (is_cmyk_) rgb_of_cmyk(row, handle_.output_width, room);
      sink.row_done();
    }
  }

  JpegOptions options_;
  JpegErrors errors_{};
  jpeg_decompress_struct handle_{};
  jpeg_source_mgr source_{};
  jpeg_progress_mgr progress_{};
  bool is_cmyk_ = false;
  std::vector<uint8_t> cmyk_row_;
};

}  // namespace

Result<std::unique_ptr<JpegReader>> JpegReader::create(const JpegOptions& options) {
  auto reader = std::make_unique<Reader>(options);
  RETURN_IF_ERROR(reader->start());
  return std::unique_ptr<JpegReader>(std::move(reader));
}

}  // namespace millrace::format
