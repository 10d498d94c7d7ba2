#include "format/images/mask_decoder.h"

#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "format/arrays/field_arrays.h"
#include "format/arrays/integer_types.h"
#include "format/images/png.h"
#include "image/nearest.h"
#include "image/row_sink.h"

namespace millrace::format {
namespace {

using data::ElementType;

// Takes whole rows of a mask from the top, and writes the rows of the sample that they are nearest
// to.
class MaskRows final : public image::RowSink {
 public:
  void plan(const image::Framing& framing, ElementType to, std::byte* out) {
    const image::Crop& crop = framing.crop;
    image::nearest_pixels({.begin = crop.box.x,
                           .size = crop.box.width,
                           .bounds_begin = crop.bounds.x,
                           .bounds_end = crop.bounds.x + crop.bounds.width,
                           .output_count = framing.target.width,
                           .mirrored = crop.flip},
                          columns_);
    image::nearest_pixels({.begin = crop.box.y,
                           .size = crop.box.height,
                           .bounds_begin = crop.bounds.y,
                           .bounds_end = crop.bounds.y + crop.bounds.height,
                           .output_count = framing.target.height},
                          rows_);
    to_ = to;
    out_ = out;
    next_row_ = 0;
    misfit_.reset();
  }

  // The rows of the mask that are needed.
  uint32_t first_row() const { return rows_.front(); }
  uint32_t row_count() const { return rows_.back() + 1 - rows_.front(); }

  void set_type(ElementType from) { from_ = from; }
  void begin(const image::RowRun& run) override {
    room_.resize(size_t{run.total_pixels} * data::element_bytes(from_));
    row_ = rows_.front();
  }
  uint8_t* room() override { return room_.data(); }
  void row_done() override { add(row_++, reinterpret_cast<const std::byte*>(room_.data())); }

  // Row `row` of the mask. REQUIRES: in ascending order.
  void add(uint32_t row, const std::byte* values) {
    for (; next_row_ < rows_.size() && rows_[next_row_] == row; ++next_row_) {
      with_integer_type(from_, 0, [&]<typename From>(From) {
        return with_integer_type(to_, 0, [&]<typename To>(To) {
          write<From, To>(values);
          return 0;
        });
      });
    }
  }

  // A value that does not fit the type of the sample.
  const std::optional<int64_t>& misfit() const { return misfit_; }

 private:
  template <typename From, typename To>
  void write(const std::byte* values) {
    std::byte* const out = out_ + next_row_ * columns_.size() * sizeof(To);
    for (size_t i = 0; i < columns_.size(); ++i) {
      From value;
      std::memcpy(&value, values + size_t{columns_[i]} * sizeof(From), sizeof(From));
      if (!std::in_range<To>(value)) misfit_ = static_cast<int64_t>(value);
      const To narrow = static_cast<To>(value);
      std::memcpy(out + i * sizeof(To), &narrow, sizeof(To));
    }
  }

  std::vector<uint32_t> columns_;  // of each output, in the mask
  std::vector<uint32_t> rows_;
  ElementType from_ = ElementType::kU8;
  ElementType to_ = ElementType::kU8;
  std::byte* out_ = nullptr;
  size_t next_row_ = 0;  // of the sample
  uint32_t row_ = 0;     // of the mask
  std::vector<uint8_t> room_;
  std::optional<int64_t> misfit_;
};

class MaskScratch final : public data::Scratch {
 public:
  MaskRows rows;
  std::unique_ptr<PngReader> png;
};

Status check_size(image::Size mask, image::Size image) {
  if (mask == image) return {};
  return fail(Errc::kInvalidArgument,
              "the mask has {} x {} pixels, but its image has {} x {}; they must be equal",
              mask.width, mask.height, image.width, image.height);
}

Status read_png(ByteView bytes, const image::Framing& framing, const MaskOptions& options,
                MaskScratch& scratch) {
  if (!scratch.png) {
    ASSIGN_OR_RETURN(scratch.png,
                     PngReader::create({.max_pixels = options.max_pixels, .values = true}));
  }
  ASSIGN_OR_RETURN(const image::Size size, scratch.png->open(bytes));
  RETURN_IF_ERROR(check_size(size, framing.image));
  MaskRows& rows = scratch.rows;
  rows.set_type(scratch.png->pixel_bytes() == 2 ? ElementType::kU16 : ElementType::kU8);
  return scratch.png->read({0, rows.first_row(), size.width, rows.row_count()}, rows);
}

Status read_array(const data::ArrayView& array, const image::Framing& framing, MaskRows& rows) {
  const auto lengths = array.shape.lengths();
  const bool is_integer = with_integer_type(array.type, false, [](auto) { return true; });
  if (lengths.size() != 2 || !(is_integer || array.type == ElementType::kBool)) {
    return fail(Errc::kInvalidArgument,
                "a mask is a PNG or [height, width] of integers, but this is {}",
                data::description(array.type, array.shape));
  }
  if (lengths[0] != framing.image.height || lengths[1] != framing.image.width) {
    return fail(Errc::kInvalidArgument,
                "the mask has {} x {} pixels, but its image has {} x {}; they must be equal",
                lengths[1], lengths[0], framing.image.width, framing.image.height);
  }
  rows.set_type(is_integer ? array.type : ElementType::kU8);
  const size_t row_bytes = lengths[1] * data::element_bytes(array.type);
  for (uint32_t y = rows.first_row(); y < rows.first_row() + rows.row_count(); ++y) {
    rows.add(y, array.bytes.data() + y * row_bytes);
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<MaskDecoder>> MaskDecoder::create(const MaskOptions& options) {
  if (!with_integer_type(options.type, false, [](auto) { return true; })) {
    return fail(Errc::kInvalidArgument, "a mask holds classes: its type must be an integer, not {}",
                data::element_name(options.type));
  }
  return std::unique_ptr<MaskDecoder>(new MaskDecoder(options));
}

data::FieldSpec MaskDecoder::field() const {
  return {
      .name = "mask", .type = options_.type, .shape = {options_.size.height, options_.size.width}};
}

std::unique_ptr<data::Scratch> MaskDecoder::make_scratch() const {
  return std::make_unique<MaskScratch>();
}

Status MaskDecoder::decode(const Field& field, const image::Framing& framing, MutableByteView out,
                           data::Scratch& scratch) const {
  auto& own = static_cast<MaskScratch&>(scratch);
  own.rows.plan(framing, options_.type, out.data());
  ASSIGN_OR_RETURN(const data::ArrayView array, array_of(field));
  if (is_png(array.bytes)) {
    RETURN_IF_ERROR(read_png(array.bytes, framing, options_, own));
  } else {
    RETURN_IF_ERROR(read_array(array, framing, own.rows));
  }
  if (!own.rows.misfit()) return {};
  return fail(Errc::kInvalidArgument, "the mask has the value {}, which {} cannot hold; use int64",
              *own.rows.misfit(), data::element_name(options_.type));
}

}  // namespace millrace::format
