// Decoders of samples that are arrays already: one that takes them as they are, and one that takes
// the named fields of a format (npz, TFRecord, tar), each by what it is: elements, text or an
// image.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "data/array.h"
#include "data/decoder.h"
#include "format/format.h"

namespace millrace::format {

// A sample's bytes are its elements: nothing is done to them, and the loader reads into the batch.
class ArrayDecoder final : public data::Decoder {
 public:
  explicit ArrayDecoder(data::FieldSpec spec) : spec_(std::move(spec)) {}

  std::vector<data::FieldSpec> fields() const override { return {spec_}; }
  bool is_verbatim() const override { return true; }
  Status decode(ByteView sample, const data::DecodeContext& context,
                std::span<const MutableByteView> outputs, data::Scratch* scratch) const override;

 private:
  data::FieldSpec spec_;
};

// What is wanted of a sample.
struct FieldWish {
  std::string
      names;  // the first of these that is there: "jpg;jpeg;png"; the first names the output
  // Elements of this type and shape; what is not said is as the first sample has it. A field may
  // have the same elements in another shape, be their bytes, or spell one integer as text ("7").
  std::optional<data::ElementType> type;
  std::optional<data::Shape> shape;
  // Or what this makes of the field's bytes; it has one field. Shared with the caller.
  std::shared_ptr<const data::Decoder> decoder;
};

class FieldsDecoder final : public data::Decoder {
 public:
  // `first_sample` answers what the wishes leave open; no wishes are all its fields.
  static Result<std::unique_ptr<FieldsDecoder>> create(std::shared_ptr<const Format> format,
                                                       std::vector<FieldWish> wishes,
                                                       ByteView first_sample);

  std::vector<data::FieldSpec> fields() const override;
  std::unique_ptr<data::Scratch> make_scratch() const override;
  // Without a scratch of make_scratch() one is made for the call.
  Status decode(ByteView sample, const data::DecodeContext& context,
                std::span<const MutableByteView> outputs, data::Scratch* scratch) const override;

 private:
  struct Part {
    std::string names;
    data::FieldSpec spec;
    std::shared_ptr<const data::Decoder> decoder;  // shared with the caller; null: elements
  };
  struct Kept;

  explicit FieldsDecoder(std::shared_ptr<const Format> format) : format_(std::move(format)) {}
  static Result<Part> settle(FieldWish wish, const Fields& first);

  std::shared_ptr<const Format> format_;  // shared with the source
  std::vector<Part> parts_;
};

}  // namespace millrace::format
