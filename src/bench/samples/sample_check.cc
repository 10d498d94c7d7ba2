#include "bench/samples/sample_check.h"

#include <algorithm>

#include "base/text/text.h"

namespace millrace::bench {
namespace {

// Whether brackets are balanced and nothing follows the last one. Does not check which bracket
// closes which.
bool has_balanced_brackets(std::string_view text) {
  int64_t depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
      continue;
    }
    in_string = c == '"';
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    const bool is_end = depth == 0 && (c == '}' || c == ']');
    if (is_end) return text.find_first_not_of(" \t\r\n", i + 1) == std::string_view::npos;
    if (depth <= 0) return false;
  }
  return false;
}

}  // namespace

Result<SampleCheck> SampleCheck::of(const Workload& workload,
                                    std::shared_ptr<const format::Format> format, bool is_ours) {
  ASSIGN_OR_RETURN(Layout layout, Layout::of(workload));
  const bool knows_lengths = format != nullptr && (is_ours || workload.dataset.traits().is_bytes);
  SampleCheck check(workload.dataset, std::move(layout), std::move(format), knows_lengths);
  if (knows_lengths && check.layout_.has_equal_files()) {
    ASSIGN_OR_RETURN(check.arrays_, sample_arrays(workload.dataset, check.layout_, {}));
  }
  if (!workload.reader.verify && !workload.reader.decode) check.text_ = check.text_check();
  return check;
}

Status SampleCheck::check(const SampleRef& sample, ByteView bytes, CheckScratch& scratch) const {
  if (bytes.empty()) return fail(Errc::kCorrupt, "the sample is empty: it has 0 bytes");
  if (format_ == nullptr) return check_image(bytes);
  if (text_ != Text::kNone && looks_complete(text_of(bytes))) return {};
  RETURN_IF_ERROR(format_->split(bytes, scratch.fields));
  const auto& fields = scratch.fields.list();
  // Rows of Parquet and HDF5 have the lengths of the row before, and may have hundreds of fields.
  if (scratch.fields.is_repeated() && scratch.fits && layout_.has_equal_files()) return {};
  scratch.fits = false;
  if (!knows_lengths_) {
    const bool has_elements = std::ranges::any_of(
        fields, [](const format::Field& field) { return !field.array.bytes.empty(); });
    if (!has_elements) return fail(Errc::kCorrupt, "the sample has no array with elements");
  } else if (layout_.has_equal_files()) {
    RETURN_IF_ERROR(check_lengths(arrays_, fields));
  } else {
    ASSIGN_OR_RETURN(const auto arrays, sample_arrays(dataset_, layout_, sample));
    RETURN_IF_ERROR(check_lengths(arrays, fields));
  }
  scratch.fits = true;
  return {};
}

// A reader may leave out some arrays, such as columns of Parquet, but not all.
Status SampleCheck::check_lengths(std::span<const SampleArray> arrays,
                                  std::span<const format::Field> fields) const {
  bool has_any = false;
  for (const SampleArray& array : arrays) {
    const auto field = std::ranges::find(fields, array.name, &format::Field::name);
    if (field == fields.end()) continue;
    has_any = true;
    if (fits(array.content, field->array)) continue;
    return fail(
        Errc::kCorrupt, "'{}' has {} bytes ({}), but {} ({}) were generated", printable(array.name),
        field->array.bytes.size(), data::description(field->array.type, field->array.shape),
        array.content.size_bytes(), data::description(array.content.type, array.content.shape));
  }
  if (has_any) return {};
  return fail(Errc::kCorrupt, "the sample has no array '{}'",
              arrays.empty() ? "" : printable(arrays[0].name));
}

SampleCheck::Text SampleCheck::text_check() const {
  const FormatTraits& traits = dataset_.traits();
  if (!traits.is_text) return Text::kNone;
  if (traits.delimiter == 0) return Text::kJson;
  // Words are in quotes, and may have delimiters.
  const bool has_plain_cells = arrays_.size() == 1 && dataset_.content != ContentKind::kText;
  return has_plain_cells ? Text::kRows : Text::kNone;
}

// Parsing takes a hundred times longer. Text that does not look complete is parsed, to get the
// usual error.
bool SampleCheck::looks_complete(std::string_view sample) const {
  if (text_ == Text::kJson) {
    // A number takes at least one character.
    const uint64_t least = arrays_.empty() ? 0 : arrays_[0].content.shape.element_count();
    return sample.size() >= least && has_balanced_brackets(sample);
  }
  const auto delimiters = std::ranges::count(sample, dataset_.traits().delimiter);
  return static_cast<uint64_t>(delimiters) + 1 == arrays_[0].content.shape.element_count();
}

// Numbers in text may have another type, but their count must match. npy and npz hold all samples
// of a file in one array.
bool SampleCheck::fits(const ContentArray& array, const data::ArrayView& found) const {
  const uint64_t samples = dataset_.traits().stacks_samples ? layout_.samples_per_file() : 1;
  if (found.bytes.size() == array.size_bytes() * samples) return true;
  return found.type != array.type &&
         found.bytes.size() / data::element_bytes(found.type) == array.shape.element_count();
}

}  // namespace millrace::bench
