#include "format/fields_decoder.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/text.h"

namespace millrace::format {
namespace {

using data::ElementType;
using data::FieldSpec;

std::string first_name(std::string_view names) {
  return std::string(names.substr(0, names.find(';')));
}

std::string describe(ElementType type, const data::Shape& shape) {
  return fmt::format("{} of {}", shape.text(), data::element_name(type));
}

Result<const Field*> find(const Fields& fields, std::string_view names) {
  if (const Field* field = fields.find(names)) return field;
  return fail(Errc::kNotFound, "has no field '{}'; it has {}", printable(names), fields.names());
}

bool is_text_for(const Field& field, const FieldSpec& spec) {
  return spec.type == ElementType::kI64 && spec.shape.element_count() == 1 &&
         field.array.type == ElementType::kU8;
}

// "7", as WebDataset writes a class; white space around it is left by many writers.
Status read_text(const Field& field, MutableByteView out) {
  std::string_view text(reinterpret_cast<const char*>(field.array.bytes.data()),
                        field.array.bytes.size());
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  text = text.substr(0, text.find_last_not_of(" \t\r\n") + 1);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    return fail(Errc::kCorrupt, "field '{}' is '{}', which is no integer", printable(field.name),
                printable(text.substr(0, 40)));
  }
  std::memcpy(out.data(), &value, sizeof value);
  return {};
}

Status take_elements(const Field& field, const FieldSpec& spec, MutableByteView out) {
  const bool is_same = field.array.type == spec.type && field.array.bytes.size() == out.size();
  const bool are_bytes =
      field.array.type == ElementType::kU8 && field.array.bytes.size() == out.size();
  if (is_same || (are_bytes && !is_text_for(field, spec))) {
    std::copy(field.array.bytes.begin(), field.array.bytes.end(), out.begin());
    return {};
  }
  if (is_text_for(field, spec)) return read_text(field, out);
  return fail(Errc::kCorrupt, "field '{}' is {}, where {} is expected", printable(field.name),
              describe(field.array.type, field.array.shape), describe(spec.type, spec.shape));
}

}  // namespace

Status ArrayDecoder::decode(ByteView sample, const data::DecodeContext&,
                            std::span<const MutableByteView> outputs, data::Scratch*) const {
  if (sample.size() != outputs[0].size()) {
    return fail(Errc::kCorrupt, "has {} bytes, but {} takes {}", sample.size(),
                describe(spec_.type, spec_.shape), outputs[0].size());
  }
  std::copy(sample.begin(), sample.end(), outputs[0].begin());
  return {};
}

// What a thread keeps: the fields of the last sample, and what the decoders of images keep.
struct FieldsDecoder::Kept final : data::Scratch {
  Fields fields;
  std::vector<std::unique_ptr<data::Scratch>> scratches;  // by part
};

Result<FieldsDecoder::Part> FieldsDecoder::settle(FieldWish wish, const Fields& first) {
  ASSIGN_OR_RETURN(const Field* const field, find(first, wish.names));
  if (wish.decoder) {
    std::vector<FieldSpec> specs = wish.decoder->fields();
    if (specs.size() != 1) {
      return fail(Errc::kInvalidArgument, "the decoder of field '{}' makes {} fields and not one",
                  printable(wish.names), specs.size());
    }
    specs[0].name = first_name(wish.names);
    return Part{std::move(wish.names), std::move(specs[0]), std::move(wish.decoder)};
  }
  FieldSpec spec{.name = first_name(wish.names),
                 .type = wish.type.value_or(field->array.type),
                 .shape = wish.shape.value_or(field->array.shape)};
  // A type alone of what are bytes is one number: a class as text.
  if (wish.type && !wish.shape && is_text_for(*field, FieldSpec{"", *wish.type, {}})) {
    spec.shape = {};
  }
  return Part{std::move(wish.names), std::move(spec), nullptr};
}

Result<std::unique_ptr<FieldsDecoder>> FieldsDecoder::create(std::shared_ptr<const Format> format,
                                                             std::vector<FieldWish> wishes,
                                                             ByteView first_sample) {
  std::unique_ptr<FieldsDecoder> decoder(new FieldsDecoder(std::move(format)));
  Fields first;
  RETURN_IF_ERROR(decoder->format_->split(first_sample, first));
  if (wishes.empty()) {
    for (const Field& field : first.list()) wishes.push_back({.names = std::string(field.name)});
  }
  for (FieldWish& wish : wishes) {
    ASSIGN_OR_RETURN(Part part, settle(std::move(wish), first));
    decoder->parts_.push_back(std::move(part));
  }
  if (decoder->parts_.empty()) return fail(Errc::kInvalidArgument, "has no fields to take");
  return decoder;
}

std::vector<FieldSpec> FieldsDecoder::fields() const {
  std::vector<FieldSpec> specs;
  for (const Part& part : parts_) specs.push_back(part.spec);
  return specs;
}

std::unique_ptr<data::Scratch> FieldsDecoder::make_scratch() const {
  auto kept = std::make_unique<Kept>();
  for (const Part& part : parts_) {
    kept->scratches.push_back(part.decoder ? part.decoder->make_scratch() : nullptr);
  }
  return kept;
}

Status FieldsDecoder::decode(ByteView sample, const data::DecodeContext& context,
                             std::span<const MutableByteView> outputs,
                             data::Scratch* scratch) const {
  std::unique_ptr<data::Scratch> own;
  if (scratch == nullptr) {
    own = make_scratch();
    scratch = own.get();
  }
  auto& kept = static_cast<Kept&>(*scratch);
  RETURN_IF_ERROR(format_->split(sample, kept.fields));
  for (size_t i = 0; i < parts_.size(); ++i) {
    const Part& part = parts_[i];
    ASSIGN_OR_RETURN(const Field* const field, find(kept.fields, part.names));
    if (part.decoder == nullptr) {
      RETURN_IF_ERROR(take_elements(*field, part.spec, outputs[i]));
    } else {
      RETURN_IF_ERROR(
          part.decoder
              ->decode(field->array.bytes, context, outputs.subspan(i, 1), kept.scratches[i].get())
              .within(fmt::format("field '{}'", printable(field->name))));
    }
  }
  return {};
}

}  // namespace millrace::format
