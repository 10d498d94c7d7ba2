#include "format/arrays/array_decoder.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "base/text/text.h"
#include "format/arrays/field_arrays.h"
#include "format/images/image_decoder.h"

namespace millrace::format {
namespace {

using data::ArrayView;
using data::ElementType;
using data::FieldSpec;

class FieldsScratch final : public data::Scratch {
 public:
  SampleFields fields;
  // By field.
  std::vector<std::unique_ptr<data::Scratch>> inners;   // for the decoders of single fields
  std::vector<std::optional<image::Framing>> framings;  // of the images of this sample
  std::vector<BoxDecoder::Kept> kept;                   // of the boxes of this sample
  std::vector<std::byte> table;                         // boxes whose numbers are lists
  // By choice: its field in `fields`, if all choices are copies of fields. Holds as long as samples
  // repeat their fields.
  std::vector<size_t> copied;
};

Error no_field(std::string_view wanted, const SampleFields& fields) {
  return fail(Errc::kNotFound, "the sample has no '{}'; it has {}", printable(wanted),
              fields.names());
}

class RawDecoder final : public data::Decoder {
 public:
  explicit RawDecoder(FieldSpec field) : field_(std::move(field)) {}

  std::vector<FieldSpec> fields() const override { return {field_}; }
  bool is_verbatim() const override { return !field_.is_ragged(); }

  Status decode(ByteView sample, const data::DecodeContext& context,
                std::span<const data::Output> outputs, data::Scratch* scratch) const override {
    static_cast<void>(context), static_cast<void>(scratch);
    if (field_.is_ragged()) {
      ASSIGN_OR_RETURN(const Items items, items_of(bytes_field(field_.name, sample), field_));
      return place_items(items, outputs[0]);
    }
    const MutableByteView out = outputs[0].bytes();
    if (sample.size() != out.size()) {
      return fail(Errc::kInvalidArgument, "has {} bytes, but {} takes {}", sample.size(),
                  data::description(field_), out.size());
    }
    if (!sample.empty()) std::memcpy(out.data(), sample.data(), sample.size());
    return {};
  }

 private:
  FieldSpec field_;
};

class FieldDecoder final : public data::Decoder {
 public:
  static Result<std::shared_ptr<const data::Decoder>> create(std::shared_ptr<const Format> format,
                                                             std::vector<FieldChoice> choices) {
    const std::shared_ptr<FieldDecoder> decoder(
        new FieldDecoder(std::move(format), std::move(choices)));
    for (const FieldChoice& choice : decoder->choices_) {
      ASSIGN_OR_RETURN(const size_t followed, decoder->find_followed(choice));
      decoder->followed_.push_back(followed);
    }
    return std::shared_ptr<const data::Decoder>(decoder);
  }

  std::vector<FieldSpec> fields() const override {
    std::vector<FieldSpec> specs;
    for (const FieldChoice& choice : choices_) specs.push_back(choice.spec);
    return specs;
  }

  std::unique_ptr<data::Scratch> make_scratch() const override {
    auto scratch = std::make_unique<FieldsScratch>();
    for (const FieldChoice& choice : choices_) {
      scratch->inners.push_back(choice.decoder ? choice.decoder->make_scratch()
                                : choice.mask  ? choice.mask->make_scratch()
                                               : nullptr);
    }
    scratch->framings.resize(choices_.size());
    scratch->kept.resize(choices_.size());
    return scratch;
  }

  Status decode(ByteView sample, const data::DecodeContext& context,
                std::span<const data::Output> outputs, data::Scratch* scratch) const override {
    auto& own = *static_cast<FieldsScratch*>(scratch);
    RETURN_IF_ERROR(format_->split(sample, own.fields));
    if (!own.fields.is_repeated()) own.copied = copied_fields(own.fields);
    if (!own.copied.empty()) {
      copy_fields(own, outputs);
      return {};
    }
    for (auto& framing : own.framings) framing.reset();
    // Boxes first: other fields need to know which of them are dropped.
    for (const bool is_first : {true, false}) {
      for (size_t i = 0; i < choices_.size(); ++i) {
        if ((choices_[i].boxes != nullptr) != is_first) continue;
        RETURN_IF_ERROR(decode_field(i, context, outputs.subspan(i, 1), own));
      }
    }
    return {};
  }

 private:
  FieldDecoder(std::shared_ptr<const Format> format, std::vector<FieldChoice> choices)
      : format_(std::move(format)), choices_(std::move(choices)) {}

  // Which field each choice is a copy of. Empty if one is not.
  std::vector<size_t> copied_fields(const SampleFields& fields) const {
    std::vector<size_t> copied;
    for (const FieldChoice& choice : choices_) {
      const bool is_plain = !choice.decoder && !choice.mask && !choice.boxes &&
                            choice.columns.empty() && !choice.spec.is_ragged();
      const Field* const field = is_plain ? fields.find(choice.from) : nullptr;
      if (field == nullptr || !is_copied(*field, choice.spec)) return {};
      copied.push_back(static_cast<size_t>(field - fields.list().data()));
    }
    return copied;
  }

  // A row of a table may have hundreds of numbers: their lengths as constants make a copy one
  // instruction.
  static void copy_fields(const FieldsScratch& own, std::span<const data::Output> outputs) {
    const std::span<const Field> fields = own.fields.list();
    for (size_t i = 0; i < own.copied.size(); ++i) {
      const ByteView from = fields[own.copied[i]].array.bytes;
      std::byte* const to = outputs[i].bytes().data();
      if (from.size() == 4) {
        std::memcpy(to, from.data(), 4);
      } else if (from.size() == 8) {
        std::memcpy(to, from.data(), 8);
      } else if (!from.empty()) {
        std::memcpy(to, from.data(), from.size());
      }
    }
  }

  // The index of the choice that this one follows.
  Result<size_t> find_followed(const FieldChoice& choice) const {
    const bool needs_image = choice.mask || choice.boxes;
    if (choice.follows.empty() && !needs_image) return size_t{0};
    const std::string name = printable(choice.from);
    if (!choice.columns.empty() && (!choice.boxes || choice.columns.size() != 4)) {
      return fail(Errc::kInvalidArgument, "'{}': boxes have four columns, not {}", name,
                  choice.columns.size());
    }
    const auto found = std::ranges::find(choices_, choice.follows, &FieldChoice::from);
    if (found == choices_.end()) {
      return fail(Errc::kInvalidArgument,
                  "'{}' follows '{}', which is not among the fields; add it to them", name,
                  printable(choice.follows));
    }
    if (needs_image && dynamic_cast<const ImageDecoder*>(found->decoder.get()) == nullptr) {
      return fail(Errc::kInvalidArgument, "'{}' follows '{}', which is not an Image", name,
                  printable(choice.follows));
    }
    if (!needs_image && (!found->boxes || !choice.spec.is_ragged() || choice.decoder)) {
      return fail(Errc::kInvalidArgument,
                  "'{}' follows the boxes '{}', but only a ragged field can follow, and only Boxes",
                  name, printable(choice.follows));
    }
    return static_cast<size_t>(found - choices_.begin());
  }

  Status decode_field(size_t i, const data::DecodeContext& context,
                      std::span<const data::Output> output, FieldsScratch& own) const {
    const FieldChoice& choice = choices_[i];
    if (!choice.columns.empty()) return decode_columns(i, context, output[0], own);
    const Field none = bytes_field(choice.from, {});
    const Field* field =
        choice.spec.is_ragged() ? find(choice.from, none, own) : own.fields.find(choice.from);
    if (field == nullptr) return no_field(choice.from, own.fields);
    if (choice.decoder) {
      return choice.decoder->decode(field->array.bytes, context, output, own.inners[i].get())
          .within(printable(field->name));
    }
    if (choice.mask || choice.boxes) {
      ASSIGN_OR_RETURN(const image::Framing framing, framing_of(followed_[i], context, own));
      return (choice.mask ? choice.mask->decode(*field, framing, output[0].bytes(), *own.inners[i])
                          : choice.boxes->decode(*field, framing, output[0], own.kept[i]))
          .within(printable(field->name));
    }
    if (!choice.spec.is_ragged()) return place_field(*field, choice.spec, output[0].bytes());
    ASSIGN_OR_RETURN(const Items items, items_of(*field, choice.spec));
    if (choice.follows.empty()) return place_items(items, output[0]);
    const BoxDecoder::Kept& kept = own.kept[followed_[i]];
    if (items.length != kept.count) {
      return fail(Errc::kInvalidArgument, "'{}' has {} items, but there are {} boxes in '{}'",
                  printable(field->name), items.length, kept.count, printable(choice.follows));
    }
    return place_some(items, kept.indexes, output[0]);
  }

  // The field; `none` if it may be missing; null if it may not.
  const Field* find(const std::string& from, const Field& none, const FieldsScratch& own) const {
    const Field* field = own.fields.find(from);
    return field == nullptr && format_->name().starts_with("tfrecord") ? &none : field;
  }

  Status decode_columns(size_t i, const data::DecodeContext& context, const data::Output& output,
                        FieldsScratch& own) const {
    const FieldChoice& choice = choices_[i];
    std::array<Field, 4> columns;
    for (size_t column = 0; column < columns.size(); ++column) {
      const std::string& name = choice.columns[column];
      const Field none = bytes_field(name, {});
      const Field* field = find(name, none, own);
      if (field == nullptr) return no_field(name, own.fields);
      columns[column] = *field;
    }
    ASSIGN_OR_RETURN(const Field table, table_of(choice.from, columns, own.table));
    ASSIGN_OR_RETURN(const image::Framing framing, framing_of(followed_[i], context, own));
    return choice.boxes->decode(table, framing, output, own.kept[i]).within(printable(choice.from));
  }

  // How the image of choice `i` becomes its sample. Reads its header once per sample.
  Result<image::Framing> framing_of(size_t i, const data::DecodeContext& context,
                                    FieldsScratch& own) const {
    if (own.framings[i]) return *own.framings[i];
    const Field* field = own.fields.find(choices_[i].from);
    if (field == nullptr) return no_field(choices_[i].from, own.fields);
    const auto& decoder = static_cast<const ImageDecoder&>(*choices_[i].decoder);
    ASSIGN_OR_RETURN(own.framings[i],
                     decoder.framing_of(field->array.bytes, context, own.inners[i].get())
                         .within(printable(field->name)));
    return *own.framings[i];
  }

  std::shared_ptr<const Format> format_;  // shared with the source
  std::vector<FieldChoice> choices_;
  std::vector<size_t> followed_;  // by choice; meaningless if it follows nothing
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
                std::span<const data::Output> outputs, data::Scratch* scratch) const override {
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

Result<std::shared_ptr<const data::Decoder>> make_field_decoder(
    std::shared_ptr<const Format> format, std::vector<FieldChoice> choices) {
  return FieldDecoder::create(std::move(format), std::move(choices));
}

Result<std::vector<FieldChoice>> describe_sample(const Format& format, ByteView sample) {
  SampleFields fields;
  RETURN_IF_ERROR(format.split(sample, fields));
  std::vector<FieldChoice> choices;
  for (const Field& field : fields.list()) {
    FieldSpec spec{
        .name = std::string(field.name), .type = field.array.type, .shape = field.array.shape};
    if (is_npy(field)) {
      ASSIGN_OR_RETURN(const ArrayView array, array_of(field));
      spec.type = array.type;
      spec.shape = array.shape;
    } else if (is_integer_text(field)) {
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
