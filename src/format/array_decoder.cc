#include "format/array_decoder.h"

#include <charconv>
#include <cstring>
#include <limits>
#include <optional>

#include "base/text.h"
#include "format/npy.h"

namespace millrace::format {
namespace {

using data::ArrayView;
using data::ElementType;
using data::FieldSpec;

class FieldsScratch final : public data::Scratch {
 public:
  SampleFields fields;
  std::vector<std::unique_ptr<data::Scratch>> inners;  // for the decoders of single fields
};

std::string description(ElementType type, const data::Shape& shape) {
  return fmt::format("{} of {}", shape.text(), data::element_name(type));
}

void copy(ByteView from, MutableByteView to) {
  if (!from.empty()) std::memcpy(to.data(), from.data(), from.size());
}

bool is_npy_name(std::string_view name) { return name == "npy" || name.ends_with(".npy"); }

bool is_text_name(std::string_view name) {
  return name == "cls" || name == "id" || name == "index" || name == "txt";
}

std::optional<int64_t> integer_of(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) {
    text.remove_suffix(1);
  }
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// False if the type is not an integer or the value does not fit.
bool put_integer(int64_t value, ElementType type, MutableByteView out) {
  const auto put = [&]<typename T>(T) {
    if (!std::in_range<T>(value)) return false;
    const T narrow = static_cast<T>(value);
    std::memcpy(out.data(), &narrow, sizeof(narrow));
    return true;
  };
  switch (type) {
    case ElementType::kU8:
      return put(uint8_t{});
    case ElementType::kI8:
      return put(int8_t{});
    case ElementType::kU16:
      return put(uint16_t{});
    case ElementType::kI16:
      return put(int16_t{});
    case ElementType::kU32:
      return put(uint32_t{});
    case ElementType::kI32:
      return put(int32_t{});
    case ElementType::kU64:
      return put(uint64_t{});
    case ElementType::kI64:
      return put(int64_t{});
    default:
      return false;
  }
}

bool is_plain_bytes(const Field& field) {
  return field.array.type == ElementType::kU8 && field.array.shape.axis_count() == 1;
}

Status place(const ArrayView& array, std::string_view name, const FieldSpec& spec,
             MutableByteView out) {
  // A list (one axis) has no shape: only its length must match.
  const bool shape_fits =
      array.shape == spec.shape ||
      (array.shape.axis_count() <= 1 && array.shape.element_count() == spec.shape.element_count());
  if (array.type == spec.type && shape_fits && array.bytes.size() == out.size()) {
    copy(array.bytes, out);
    return {};
  }
  return fail(Errc::kInvalidArgument, "'{}' is {}, but {} is expected", printable(name),
              description(array.type, array.shape), description(spec.type, spec.shape));
}

Status place_text(const Field& field, const FieldSpec& spec, MutableByteView out) {
  const std::string_view text = text_of(field.array.bytes);
  const auto value = integer_of(text);
  if (value && put_integer(*value, spec.type, out)) return {};
  return fail(Errc::kInvalidArgument, "'{}' is '{}', but an integer that fits {} is expected",
              printable(field.name), printable(text.substr(0, 40)), data::element_name(spec.type));
}

Status place_field(const Field& field, const FieldSpec& spec, MutableByteView out) {
  if (is_plain_bytes(field) && is_npy_name(field.name)) {
    ASSIGN_OR_RETURN(const ArrayView array,
                     parse_npy(field.array.bytes).within(printable(field.name)));
    if (array.shape != spec.shape) {
      return fail(Errc::kInvalidArgument, "'{}' is {}, but {} is expected", printable(field.name),
                  description(array.type, array.shape), description(spec.type, spec.shape));
    }
    return place(array, field.name, spec, out);
  }
  if (is_plain_bytes(field)) {
    if (is_text_name(field.name) && spec.shape.element_count() == 1) {
      return place_text(field, spec, out);
    }
    if (field.array.bytes.size() == out.size()) {
      copy(field.array.bytes, out);
      return {};
    }
  }
  return place(field.array, field.name, spec, out);
}

Error no_field(std::string_view wanted, const SampleFields& fields) {
  return fail(Errc::kNotFound, "the sample has no '{}'; it has {}", printable(wanted),
              fields.names());
}

class RawDecoder final : public data::Decoder {
 public:
  explicit RawDecoder(FieldSpec field) : field_(std::move(field)) {}

  std::vector<FieldSpec> fields() const override { return {field_}; }
  bool is_verbatim() const override { return true; }

  Status decode(ByteView sample, const data::DecodeContext& context,
                std::span<const MutableByteView> outputs, data::Scratch* scratch) const override {
    static_cast<void>(context), static_cast<void>(scratch);
    if (sample.size() != outputs[0].size()) {
      return fail(Errc::kInvalidArgument, "has {} bytes, but {} takes {}", sample.size(),
                  description(field_.type, field_.shape), outputs[0].size());
    }
    copy(sample, outputs[0]);
    return {};
  }

 private:
  FieldSpec field_;
};

class FieldDecoder final : public data::Decoder {
 public:
  FieldDecoder(std::shared_ptr<const Format> format, std::vector<FieldChoice> choices)
      : format_(std::move(format)), choices_(std::move(choices)) {}

  std::vector<FieldSpec> fields() const override {
    std::vector<FieldSpec> specs;
    for (const FieldChoice& choice : choices_) specs.push_back(choice.spec);
    return specs;
  }

  std::unique_ptr<data::Scratch> make_scratch() const override {
    auto scratch = std::make_unique<FieldsScratch>();
    for (const FieldChoice& choice : choices_) {
      scratch->inners.push_back(choice.decoder ? choice.decoder->make_scratch() : nullptr);
    }
    return scratch;
  }

  Status decode(ByteView sample, const data::DecodeContext& context,
                std::span<const MutableByteView> outputs, data::Scratch* scratch) const override {
    auto& own = *static_cast<FieldsScratch*>(scratch);
    RETURN_IF_ERROR(format_->split(sample, own.fields));
    for (size_t i = 0; i < choices_.size(); ++i) {
      const FieldChoice& choice = choices_[i];
      const Field* field = own.fields.find(choice.from);
      if (field == nullptr) return no_field(choice.from, own.fields);
      if (choice.decoder == nullptr) {
        RETURN_IF_ERROR(place_field(*field, choice.spec, outputs[i]));
      } else {
        RETURN_IF_ERROR(
            choice.decoder
                ->decode(field->array.bytes, context, outputs.subspan(i, 1), own.inners[i].get())
                .within(printable(field->name)));
      }
    }
    return {};
  }

 private:
  std::shared_ptr<const Format> format_;  // shared with the source
  std::vector<FieldChoice> choices_;
};

class OneFieldDecoder final : public data::Decoder {
 public:
  OneFieldDecoder(std::shared_ptr<const Format> format, std::string from,
                  std::shared_ptr<const data::Decoder> decoder)
      : format_(std::move(format)), from_(std::move(from)), decoder_(std::move(decoder)) {}

  std::vector<FieldSpec> fields() const override { return decoder_->fields(); }

  std::unique_ptr<data::Scratch> make_scratch() const override {
    auto scratch = std::make_unique<FieldsScratch>();
    scratch->inners.push_back(decoder_->make_scratch());
    return scratch;
  }

  Status decode(ByteView sample, const data::DecodeContext& context,
                std::span<const MutableByteView> outputs, data::Scratch* scratch) const override {
    auto& own = *static_cast<FieldsScratch*>(scratch);
    RETURN_IF_ERROR(format_->split(sample, own.fields));
    const Field* field = own.fields.find(from_);
    if (field == nullptr) return no_field(from_, own.fields);
    return decoder_->decode(field->array.bytes, context, outputs, own.inners[0].get())
        .within(printable(field->name));
  }

 private:
  std::shared_ptr<const Format> format_;  // shared with the source
  std::string from_;
  std::shared_ptr<const data::Decoder> decoder_;  // shared with the caller
};

}  // namespace

std::shared_ptr<const data::Decoder> make_raw_decoder(FieldSpec field) {
  return std::make_shared<RawDecoder>(std::move(field));
}

std::shared_ptr<const data::Decoder> make_field_decoder(std::shared_ptr<const Format> format,
                                                        std::vector<FieldChoice> choices) {
  return std::make_shared<FieldDecoder>(std::move(format), std::move(choices));
}

Result<std::vector<FieldChoice>> describe_sample(const Format& format, ByteView sample) {
  SampleFields fields;
  RETURN_IF_ERROR(format.split(sample, fields));
  std::vector<FieldChoice> choices;
  for (const Field& field : fields.list()) {
    FieldSpec spec{
        .name = std::string(field.name), .type = field.array.type, .shape = field.array.shape};
    if (is_plain_bytes(field) && is_npy_name(field.name)) {
      ASSIGN_OR_RETURN(const ArrayView array,
                       parse_npy(field.array.bytes).within(printable(field.name)));
      spec.type = array.type;
      spec.shape = array.shape;
    } else if (is_plain_bytes(field) && is_text_name(field.name) &&
               integer_of(text_of(field.array.bytes))) {
      spec.type = ElementType::kI64;
      spec.shape = {};
    }
    choices.push_back({.from = spec.name, .spec = spec});
  }
  return choices;
}

Result<std::shared_ptr<const data::Decoder>> make_decoder_by_first(
    const data::SampleSource& source, std::shared_ptr<const Format> format) {
  if (source.sample_count() == 0) {
    return fail(Errc::kInvalidArgument,
                "the dataset has no samples, so their fields are unknown; specify the fields");
  }
  data::Buffer room;
  ASSIGN_OR_RETURN(const ByteView sample, source.read(data::SampleId{0}, room));
  auto choices = describe_sample(*format, sample);
  if (!choices.ok()) return std::move(choices).error().within(source.name(data::SampleId{0}));
  return make_field_decoder(std::move(format), *std::move(choices));
}

std::shared_ptr<const data::Decoder> decode_field(std::shared_ptr<const Format> format,
                                                  std::string from,
                                                  std::shared_ptr<const data::Decoder> decoder) {
  return std::make_shared<OneFieldDecoder>(std::move(format), std::move(from), std::move(decoder));
}

}  // namespace millrace::format
