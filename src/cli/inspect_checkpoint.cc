#include "cli/inspect_checkpoint.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/text/json_writer.h"
#include "base/text/phrases.h"
#include "base/text/table.h"
#include "base/text/text.h"
#include "base/text/units.h"
#include "bench/checkpoint/bundle_reader.h"
#include "bench/checkpoint/tensor_bundle.h"
#include "cli/options/command.h"

namespace millrace::cli {
namespace {

using bench::StoredTensor;
using bench::VerifiedBundle;

constexpr size_t kShownTensors = 20;
constexpr uint64_t kTextNumber = 7;

std::string type_text(const StoredTensor& tensor) {
  const auto type = bench::tensorflow_type(tensor.type_number);
  if (type) return std::string(data::element_name(*type));
  return tensor.type_number == kTextNumber ? "text" : fmt::format("type {}", tensor.type_number);
}

std::string shape_text(const StoredTensor& tensor) {
  std::vector<std::string> lengths;
  for (const uint64_t length : tensor.lengths) lengths.push_back(std::to_string(length));
  return fmt::format("[{}]", join(lengths, ", "));
}

std::string bundle_text(const VerifiedBundle& bundle, const Terminal& terminal) {
  const auto& tensors = bundle.index.tensors;
  std::string out = fmt::format(
      "tensorflow checkpoint: {} in {}, {}\n", counted(tensors.size(), "tensor", "tensors"),
      counted(bundle.index.shard_count, "file", "files"), format_bytes(bundle.data_bytes));
  out += bundle.unverified_count == 0
             ? "all checksums are right\n"
             : fmt::format("{} of the tensors cannot be verified; the other checksums are right\n",
                           bundle.unverified_count);
  Table table({{.title = "tensor", .may_shrink = true},
               {.title = "type"},
               {.title = "shape"},
               {.title = "file", .align = Table::Align::kRight},
               {.title = "byte", .align = Table::Align::kRight}});
  for (const StoredTensor& tensor :
       std::span(tensors).first(std::min(tensors.size(), kShownTensors))) {
    table.add_row({printable(tensor.key), type_text(tensor), shape_text(tensor),
                   std::to_string(tensor.shard), format_exact(tensor.offset_bytes)});
  }
  out += "\n" + table.render(terminal);
  if (tensors.size() > kShownTensors) {
    out += fmt::format("and {} more; --json shows all\n", tensors.size() - kShownTensors);
  }
  return out;
}

std::string bundle_json(const VerifiedBundle& bundle) {
  JsonWriter json;
  json.begin_object();
  json.field("format", "tensorflow checkpoint");
  json.field("file_count", bundle.index.shard_count);
  json.field("size_bytes", bundle.data_bytes);
  json.field("unverified_count", bundle.unverified_count);
  json.key("tensors");
  json.begin_list();
  for (const StoredTensor& tensor : bundle.index.tensors) {
    json.begin_object(JsonLayout::kOneLine);
    json.field("name", tensor.key);
    json.field("type", type_text(tensor));
    json.key("shape");
    json.begin_list();
    for (const uint64_t length : tensor.lengths) json.value(length);
    json.end_list();
    json.field("file", tensor.shard);
    json.field("offset_bytes", tensor.offset_bytes);
    json.field("size_bytes", tensor.size_bytes);
    json.end_object();
  }
  json.end_list();
  json.end_object();
  return std::move(json).finish();
}

}  // namespace

Result<int> inspect_checkpoint(const std::string& index_path, bool as_json, Output& output) {
  ASSIGN_OR_RETURN(const VerifiedBundle bundle, bench::verify_bundle(index_path));
  output.print(as_json ? bundle_json(bundle) : bundle_text(bundle, output.terminal()));
  return kExitSuccess;
}

}  // namespace millrace::cli
