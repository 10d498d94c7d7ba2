// Reads and writes files of samples. tests/format/format_test.py compares it with other readers and
// writers.
//
// usage: format_samples read FORMAT OPTION FILE...   prints one JSON object per sample: its name,
//                                                    its label, and its fields as type, shape and
//                                                    bytes in hex
//        format_samples write FORMAT OPTION FILE     writes three samples that the test knows
//        format_samples folder DIRECTORY EXTENSION   prints name and label of each sample
// OPTION: `-`, `rows` (npy), `float64`, `header` or `no-header` (csv), `window=N` (megatron),
// `compression=NAME` or `columns=NAME` (parquet), the length of a record (raw), or words of hdf5:
// `whole`, `count`, `gzip`, `shuffle`, `chunk`, `dataset=NAME`, joined by commas.
// Exit code: 0, or 1 with a message.
#include <fmt/core.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "base/text/json_writer.h"
#include "format/file_source.h"

namespace millrace::format {
namespace {

using data::ElementType;
using data::SampleId;

FormatOptions hdf5_options(std::string words) {
  FormatOptions::Hdf5 options;
  for (words += ','; !words.empty(); words.erase(0, words.find(',') + 1)) {
    const std::string word = words.substr(0, words.find(','));
    if (word == "whole") options.whole_files = true;
    if (word == "count") options.sample_count = 3;
    if (word == "gzip") options.gzip_level = 6;
    if (word == "shuffle") options.shuffle = true;
    if (word == "chunk") options.chunk_rows = 2;
    if (word.starts_with("dataset=")) options.datasets.push_back(word.substr(8));
  }
  return {.hdf5 = options};
}

FormatOptions options_of(const std::string& option) {
  if (option == "rows") return {.rows = true};
  if (option == "-") return {};
  if (option == "float64") return {.text_float = ElementType::kF64};
  if (option == "header") return {.header = HeaderRow::kYes};
  if (option == "no-header") return {.header = HeaderRow::kNo};
  if (option.starts_with("window=")) return {.window_tokens = std::stoull(option.substr(7))};
  if (option.starts_with("compression=")) return {.parquet = {.compression = option.substr(12)}};
  if (option.starts_with("columns=")) return {.columns = {option.substr(8)}};
  if (option.find_first_not_of("0123456789") != option.npos) return hdf5_options(option);
  return {.record_bytes = std::stoull(option)};
}

std::string hex(ByteView bytes) {
  std::string text;
  for (const std::byte byte : bytes) text += fmt::format("{:02x}", std::to_integer<int>(byte));
  return text;
}

Status print_sample(const Samples& samples, SampleId sample, SampleFields& fields) {
  const data::SampleSource& source = *samples.source;
  data::Buffer room;
  ASSIGN_OR_RETURN(const ByteView bytes, source.read(sample, room));
  RETURN_IF_ERROR(samples.format->split(bytes, fields).within(source.name(sample)));
  JsonWriter json;
  json.begin_object(JsonLayout::kOneLine);
  json.field("name", source.name(sample));
  json.field("label", source.label(sample).value_or(-1));
  json.key("fields");
  json.begin_object();
  for (const Field& field : fields.list()) {
    json.key(field.name);
    json.begin_object();
    json.field("type", data::element_name(field.array.type));
    json.field("shape", field.array.shape.text());
    json.field("bytes", hex(field.array.bytes));
    json.end_object();
  }
  json.end_object();
  json.end_object();
  fmt::print("{}", std::move(json).finish());
  return {};
}

Status read(const std::vector<std::string>& words) {
  FilesOptions options{.format = words[1], .format_options = options_of(words[2])};
  for (size_t i = 3; i < words.size(); ++i) options.paths.emplace_back(words[i]);
  ASSIGN_OR_RETURN(const Samples samples, open_samples(options));
  SampleFields fields;
  for (uint64_t i = 0; i < samples.source->sample_count(); ++i) {
    RETURN_IF_ERROR(print_sample(samples, SampleId{i}, fields));
  }
  return {};
}

// "image": 2x3 float32 of i, i + 1, ...; "label": i; "text": bytes, for formats of several fields.
Status write_three(SampleWriter& writer, const std::string& format, bool is_single) {
  for (int64_t i = 0; i < 3; ++i) {
    float image[6];
    for (int j = 0; j < 6; ++j) image[j] = static_cast<float>(i + j);
    const std::string text = fmt::format("sample {}\n", i);
    const std::string digits = std::to_string(i * 100);
    const Field image_field = {
        .name = "image",
        .array = {
            .type = ElementType::kF32, .shape = {2, 3}, .bytes = std::as_bytes(std::span(image))}};
    const Field label = {
        .name = "label",
        .array = {
            .type = ElementType::kI64, .shape = {1}, .bytes = std::as_bytes(std::span(&i, 1))}};
    std::vector<Field> fields = {image_field};
    if (format == "tar")
      fields = {bytes_field("txt", bytes_of(text)), bytes_field("cls", bytes_of(digits))};
    if (format.starts_with("tfrecord") || format.starts_with("json") || format == "parquet") {
      fields = {image_field, label, bytes_field("text", bytes_of(text))};
    }
    if (format == "csv" || format == "tsv") {
      fields = {label, bytes_field("text", bytes_of(text))};
    }
    if (format == "npz" || format == "indexed" || format == "hdf5") fields.push_back(label);
    const std::string key = fmt::format("{}/{:04}", std::string(i == 2 ? 120 : 3, 'd'), i);
    RETURN_IF_ERROR(writer.add(key, fields));
    if (is_single) break;
  }
  return writer.finish();
}

Status write(const std::vector<std::string>& words) {
  ASSIGN_OR_RETURN(const auto engine, io::open_engine("posix"));
  const FormatOptions options = options_of(words[2]);
  ASSIGN_OR_RETURN(const auto format, open_format(words[1], options));
  ASSIGN_OR_RETURN(const auto writer, format->create(*engine, words[3]));
  return write_three(*writer, words[1], format->is_file_a_sample() || options.hdf5.whole_files);
}

Status folder(const std::vector<std::string>& words) {
  ASSIGN_OR_RETURN(const auto source,
                   open_folder({.directory = words[1], .extensions = {words[2]}}));
  for (uint64_t i = 0; i < source->sample_count(); ++i) {
    fmt::print("{} {}\n", *source->label(SampleId{i}), source->name(SampleId{i}));
  }
  return {};
}

Status run(const std::vector<std::string>& words) {
  if (words.size() >= 4 && words[0] == "read") return read(words);
  if (words.size() == 4 && words[0] == "write") return write(words);
  if (words.size() == 3 && words[0] == "folder") return folder(words);
  return fail(Errc::kInvalidArgument, "usage: format_samples read|write FORMAT OPTION FILE");
}

}  // namespace
}  // namespace millrace::format

int main(int argc, char** argv) {
  const auto status = millrace::format::run(std::vector<std::string>(argv + 1, argv + argc));
  if (status.ok()) return 0;
  fmt::print(stderr, "millrace: {}\n", status.error().message());
  return 1;
}
