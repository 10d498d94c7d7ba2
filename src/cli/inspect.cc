// The verb `inspect`: what files of samples hold, and checkpoints of TensorFlow.
#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "base/text/json_writer.h"
#include "base/text/phrases.h"
#include "base/text/table.h"
#include "base/text/text.h"
#include "base/text/units.h"
#include "cli/inspect_checkpoint.h"
#include "cli/options/sample_options.h"
#include "cli/verbs.h"
#include "format/text/number_text.h"

namespace millrace::cli {
namespace {

using data::ElementType;
using data::SampleId;
using format::Field;

constexpr uint64_t kSizedSamples = 100;  // whose lengths are looked at
constexpr size_t kShownNumbers = 8;
constexpr size_t kShownText = 60;

struct ShownField {
  std::string name;
  std::string type;
  data::Shape shape;
  std::string value;
};

struct ShownSample {
  std::string name;
  std::optional<int64_t> label;
  std::vector<ShownField> fields;
};

struct Inspection {
  std::string format;
  uint64_t file_count = 0;
  uint64_t size_bytes = 0;
  uint64_t sample_count = 0;
  std::vector<uint64_t> sample_bytes;  // of some samples, sorted
  std::vector<ShownSample> first;      // at least one, if there is one
};

std::string value_text(const Field& field) {
  const data::ArrayView& array = field.array;
  if (array.type == ElementType::kU8 && array.shape.axis_count() == 1) {
    const std::string_view text = text_of(array.bytes);
    if (is_utf8(text)) return fmt::format("'{}'", shorten(printable(text), kShownText));
  }
  std::string out;
  const size_t count = array.shape.element_count();
  for (size_t i = 0; i < std::min(count, kShownNumbers); ++i) {
    if (i > 0) out += ", ";
    if (!format::append_number(out, array, i).ok()) return "...";
  }
  if (count > kShownNumbers) out += ", ...";
  return array.shape.axis_count() == 0 ? out : fmt::format("[{}]", out);
}

Result<ShownSample> show_sample(const format::Samples& samples, SampleId sample) {
  data::Buffer room;
  format::SampleFields fields;
  ShownSample shown{.name = samples.source->name(sample), .label = samples.source->label(sample)};
  ASSIGN_OR_RETURN(const ByteView bytes, samples.source->read(sample, room));
  RETURN_IF_ERROR(format::split_sample(samples, bytes, fields).within(shown.name));
  for (const Field& field : fields.list()) {
    const bool is_text = field.is_text;
    shown.fields.push_back(
        {.name = std::string(field.name),
         .type = is_text ? "text" : std::string(data::element_name(field.array.type)),
         .shape = field.array.shape,
         .value = value_text(field)});
  }
  return shown;
}

Result<std::vector<uint64_t>> some_lengths(const data::SampleSource& source) {
  const uint64_t count = source.sample_count();
  const uint64_t step = std::max<uint64_t>(1, count / kSizedSamples);
  std::vector<uint64_t> lengths;
  data::Buffer room;
  for (uint64_t i = 0; i < count && lengths.size() < kSizedSamples; i += step) {
    ASSIGN_OR_RETURN(const ByteView bytes, source.read(SampleId{i}, room));
    lengths.push_back(bytes.size());
  }
  std::ranges::sort(lengths);
  return lengths;
}

Result<Inspection> inspect(const format::FilesOptions& options, uint64_t shown_count) {
  ASSIGN_OR_RETURN(const format::FileList list, format::list_files(options));
  Inspection found{.format = list.format, .file_count = list.paths.size()};
  std::error_code ignored;
  for (const std::string& path : list.paths) {
    const auto size = std::filesystem::file_size(path, ignored);
    if (!ignored) found.size_bytes += size;
  }
  format::FilesOptions named = options;
  named.format = list.format;
  ASSIGN_OR_RETURN(const format::Samples samples, format::open_samples(std::move(named)));
  found.sample_count = samples.source->sample_count();
  ASSIGN_OR_RETURN(found.sample_bytes, some_lengths(*samples.source));
  const uint64_t count = std::min(found.sample_count, std::max<uint64_t>(1, shown_count));
  for (uint64_t i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(ShownSample sample, show_sample(samples, SampleId{i}));
    found.first.push_back(std::move(sample));
  }
  return found;
}

std::string lengths_text(const Inspection& found) {
  const auto& lengths = found.sample_bytes;
  if (lengths.empty()) return "";
  if (lengths.front() == lengths.back() && lengths.size() == found.sample_count) {
    return fmt::format("each sample has {} bytes\n", format_exact(lengths.front()));
  }
  return fmt::format(
      "samples have {} to {} bytes, median {} (of {})\n", format_exact(lengths.front()),
      format_exact(lengths.back()), format_exact(lengths[lengths.size() / 2]),
      lengths.size() == found.sample_count ? "all" : fmt::format("{} of them", lengths.size()));
}

std::string inspection_text(const Inspection& found, uint64_t shown_count,
                            const Terminal& terminal) {
  std::string out = fmt::format(
      "{}: {} in {}, {}\n", found.format, counted(found.sample_count, "sample", "samples"),
      counted(found.file_count, "file", "files"), format_bytes(found.size_bytes));
  out += lengths_text(found);
  if (found.first.empty()) return out;
  Table table({{.title = "field", .may_shrink = true}, {.title = "type"}, {.title = "shape"}});
  for (const ShownField& field : found.first.front().fields) {
    table.add_row({printable(field.name), field.type, field.shape.text()});
  }
  out += "\n" + table.render(terminal);
  for (size_t i = 0; i < std::min<size_t>(shown_count, found.first.size()); ++i) {
    const ShownSample& sample = found.first[i];
    out += fmt::format("\nsample {}: {}\n", i, printable(sample.name));
    if (sample.label) out += fmt::format("  label {}\n", *sample.label);
    for (const ShownField& field : sample.fields) {
      out += fmt::format("  {} = {}\n", printable(field.name), field.value);
    }
  }
  return out;
}

void put_field(JsonWriter& json, const ShownField& field) {
  json.begin_object(JsonLayout::kOneLine);
  json.field("name", field.name);
  json.field("type", field.type);
  json.key("shape");
  json.begin_list();
  for (const uint64_t length : field.shape.lengths()) json.value(length);
  json.end_list();
  json.field("value", field.value);
  json.end_object();
}

std::string inspection_json(const Inspection& found) {
  JsonWriter json;
  json.begin_object();
  json.field("format", found.format);
  json.field("file_count", found.file_count);
  json.field("size_bytes", found.size_bytes);
  json.field("sample_count", found.sample_count);
  if (!found.sample_bytes.empty()) {
    json.key("sample_bytes");
    json.begin_object(JsonLayout::kOneLine);
    json.field("min", found.sample_bytes.front());
    json.field("median", found.sample_bytes[found.sample_bytes.size() / 2]);
    json.field("max", found.sample_bytes.back());
    json.field("count", found.sample_bytes.size());
    json.end_object();
  }
  json.key("samples");
  json.begin_list();
  for (const ShownSample& sample : found.first) {
    json.begin_object();
    json.field("name", sample.name);
    if (sample.label) json.field("label", *sample.label);
    json.key("fields");
    json.begin_list();
    for (const ShownField& field : sample.fields) put_field(json, field);
    json.end_list();
    json.end_object();
  }
  json.end_list();
  json.end_object();
  return std::move(json).finish();
}

Result<int> run_inspect(const Arguments& arguments, Output& output) {
  const auto& paths = arguments.positionals();
  if (paths.size() == 1 && paths.front().ends_with(".index")) {
    return inspect_checkpoint(paths.front(), arguments.has("json"), output);
  }
  ASSIGN_OR_RETURN(const format::FilesOptions options,
                   samples_of(arguments, arguments.positionals()));
  const uint64_t shown = count_of(arguments, "samples", 1);
  ASSIGN_OR_RETURN(const Inspection found, inspect(options, shown));
  output.print(arguments.has("json") ? inspection_json(found)
                                     : inspection_text(found, shown, output.terminal()));
  return kExitSuccess;
}

}  // namespace

Command inspect_command() {
  Option samples = count_option("samples", "show the values of this number of samples (default 1)");
  samples.letter = 'n';
  return {
      .name = "inspect",
      .summary = "what files of samples hold: format, samples, fields, sizes",
      .description =
          "Opens files of samples as the loader does, and shows their format, how many samples "
          "they have, how long the samples are, and the fields of the first one. All files are "
          "indexed, so damage is found that the index shows.\n\n"
          "The format is known by the extension of the first file; for a directory, give it with "
          "--format. A .bin file with an .idx file next to it is Megatron's.\n\n"
          "The .index file of a TensorFlow checkpoint shows its tensors. The .data files are read, "
          "and every tensor is compared with its checksum.",
      .options = joined({{samples}, sample_options(), {json_option()}}),
      .positionals = {{.name = "FILE",
                       .help = "files of one format, or a directory of them",
                       .kind = ValueKind::kFile,
                       .repeatable = true}},
      .examples = {{"millrace inspect train.csv", "the columns and the first row"},
                   {"millrace inspect shards/ --format tar -n 3", "the first three samples of all"},
                   {"millrace inspect tokens.bin --window-tokens 2048 --json",
                    "how many windows there are, for a program"},
                   {"millrace inspect model.ckpt-50.index",
                    "a checkpoint of TensorFlow, verified"}},
      .run = run_inspect,
  };
}

}  // namespace millrace::cli
