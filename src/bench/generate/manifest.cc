#include "bench/generate/manifest.h"

#include <filesystem>

#include "base/io/atomic_file.h"
#include "base/io/file.h"
#include "base/text/fields.h"
#include "base/text/json.h"
#include "base/text/json_writer.h"
#include "base/text/text.h"
#include "bench/generate/content.h"
#include "bench/generate/layout.h"
#include "bench/workload/own_files.h"

namespace millrace::bench {
namespace {

constexpr std::string_view kKind = "millrace dataset";

std::string list_text(const std::vector<uint64_t>& numbers) {
  std::vector<std::string> texts;
  for (const uint64_t number : numbers) texts.push_back(std::to_string(number));
  return fmt::format("[{}]", join(texts, ", "));
}

std::string fields_text(const std::vector<ExtraField>& fields) {
  std::vector<std::string> texts;
  for (const ExtraField& field : fields) {
    texts.push_back(
        fmt::format("{} {} {}", field.name, data::element_name(field.type), list_text(field.dims)));
  }
  return join(texts, "; ");
}

std::string columns_text(const std::vector<Column>& columns) {
  std::vector<std::string> texts;
  for (const Column& column : columns) {
    texts.push_back(fmt::format("{} {} {}", column.name, column.dtype, column.size));
  }
  return join(texts, "; ");
}

// The keys that decide about the files. Those that only readers use are not among them.
std::vector<Manifest::Key> keys_of(const DatasetConfig& dataset) {
  return {
      {"dataset.format", std::string(name_of(dataset.format))},
      {"dataset.num_files_train", std::to_string(dataset.num_files_train)},
      {"dataset.num_files_eval", std::to_string(dataset.num_files_eval)},
      {"dataset.num_samples_per_file", std::to_string(dataset.num_samples_per_file)},
      {"dataset.num_subfolders_train", std::to_string(dataset.num_subfolders_train)},
      {"dataset.num_subfolders_eval", std::to_string(dataset.num_subfolders_eval)},
      {"dataset.file_prefix", dataset.file_prefix},
      {"dataset.record_length_bytes", fmt::format("{}", dataset.record_length_bytes)},
      {"dataset.record_length_bytes_stdev", fmt::format("{}", dataset.record_length_bytes_stdev)},
      {"dataset.record_dims", list_text(dataset.record_dims)},
      {"dataset.record_element_type", std::string(data::element_name(dataset.record_element_type))},
      {"dataset.compression", std::string(name_of(dataset.compression))},
      {"dataset.compression_level", std::to_string(dataset.compression_level)},
      {"dataset.enable_chunking", dataset.enable_chunking ? "true" : "false"},
      {"dataset.chunk_size", std::to_string(dataset.chunk_size)},
      {"dataset.hdf5.chunk_dims", list_text(dataset.chunk_dims)},
      {"dataset.hdf5.num_dset_per_record", std::to_string(dataset.num_dset_per_record)},
      {"dataset.hdf5.max_shape", list_text(dataset.max_shape)},
      {"dataset.parquet.row_group_size", std::to_string(dataset.row_group_size)},
      {"dataset.parquet.columns", columns_text(dataset.columns)},
      {"dataset.content", std::string(name_of(dataset.content))},
      {"dataset.fields", fields_text(dataset.fields)},
      {"dataset.seed", std::to_string(dataset.seed)},
  };
}

std::string manifest_path(const std::string& data_folder) {
  return fmt::format("{}/{}", data_folder, kManifestName);
}

Status read_head(Fields& fields) {
  std::string kind;
  uint64_t version = 0;
  RETURN_IF_ERROR(fields.require("kind", kind));
  RETURN_IF_ERROR(fields.require("version", version));
  if (kind != kKind) return fields.complain("kind", fmt::format("not '{}'", kKind));
  if (version > kManifestVersion) {
    return fields.complain(
        "version",
        fmt::format("{}, but this build reads up to {}; upgrade millrace, or generate the dataset "
                    "again",
                    version, kManifestVersion));
  }
  return {};
}

Result<Manifest> parse_manifest(const Document& document) {
  ASSIGN_OR_RETURN(Fields fields, Fields::of(document, document.root));
  RETURN_IF_ERROR(read_head(fields));
  Manifest manifest;
  uint64_t content_version = 0;
  RETURN_IF_ERROR(fields.require("content_version", content_version));
  manifest.content_version = static_cast<uint32_t>(content_version);
  RETURN_IF_ERROR(fields.require("workload", manifest.workload));
  RETURN_IF_ERROR(fields.require("complete", manifest.is_complete));
  RETURN_IF_ERROR(fields.require("files", manifest.file_count));
  RETURN_IF_ERROR(fields.require("samples", manifest.sample_count));
  RETURN_IF_ERROR(fields.require("payload_bytes", manifest.payload_bytes));
  RETURN_IF_ERROR(fields.require("size_bytes", manifest.size_bytes));
  RETURN_IF_ERROR(fields.read("folders", manifest.folders));
  const Node* keys = document.root.find("keys");
  if (keys == nullptr || keys->kind() != Node::Kind::kMap) {
    return fields.complain("keys", "missing, or not a section");
  }
  for (const auto& [name, node] : keys->members()) manifest.keys.push_back({name, node.text()});
  return manifest;
}

}  // namespace

Result<Manifest> manifest_of(const Workload& workload) {
  ASSIGN_OR_RETURN(const Layout layout, Layout::of(workload));
  return Manifest{
      .content_version = kContentVersion,
      .workload = workload.name,
      .file_count = layout.file_count(),
      .sample_count = layout.file_count() * layout.samples_per_file(),
      .payload_bytes = layout.payload_bytes(Split::kTrain) + layout.payload_bytes(Split::kEval),
      .keys = keys_of(workload.dataset)};
}

Status write_manifest(const std::string& data_folder, const Manifest& manifest) {
  JsonWriter json;
  json.begin_object();
  json.field("kind", kKind);
  json.field("version", kManifestVersion);
  json.field("content_version", manifest.content_version);
  json.field("workload", manifest.workload);
  json.field("complete", manifest.is_complete);
  json.field("files", manifest.file_count);
  json.field("samples", manifest.sample_count);
  json.field("payload_bytes", manifest.payload_bytes);
  json.field("size_bytes", manifest.size_bytes);
  json.key("folders");
  json.begin_list();
  for (const std::string& folder : manifest.folders) json.value(folder);
  json.end_list();
  json.key("keys");
  json.begin_object();
  for (const Manifest::Key& key : manifest.keys) json.field(key.name, key.value);
  json.end_object();
  json.end_object();
  return write_file_atomically(manifest_path(data_folder), bytes_of(std::move(json).finish()));
}

Result<std::optional<Manifest>> read_manifest(const std::string& data_folder) {
  const std::string path = manifest_path(data_folder);
  const auto written_ns = modified_ns_of(path);
  auto text = read_file(path, kDocumentSizeMaxBytes);
  if (!text.ok()) {
    if (text.error().code() == Errc::kNotFound) return std::optional<Manifest>();
    return std::move(text).error();
  }
  ASSIGN_OR_RETURN(const Document document, parse_json(*text, path));
  ASSIGN_OR_RETURN(Manifest manifest, parse_manifest(document));
  manifest.written_ns = written_ns.value_or(0);
  return std::optional<Manifest>(std::move(manifest));
}

Status compare_manifests(const std::string& data_folder, const Manifest& found,
                         const Manifest& wanted) {
  for (const Manifest::Key& key : wanted.keys) {
    std::string_view value;  // empty if a version before the key was added wrote it
    for (const Manifest::Key& each : found.keys) {
      if (each.name == key.name) value = each.value;
    }
    if (value == key.value) continue;
    return fail(Errc::kInvalidArgument,
                "{}: the dataset there was generated with {}={}, but the workload says {}; set the "
                "key to {}, or choose another dataset.data_folder, or delete the folder and "
                "generate it again",
                printable(data_folder), key.name, printable(value), printable(key.value),
                printable(value));
  }
  if (found.content_version != wanted.content_version) {
    return fail(Errc::kInvalidArgument,
                "{}: the dataset there has contents of version {}, but this build makes version "
                "{}; delete the folder and generate it again",
                printable(data_folder), found.content_version, wanted.content_version);
  }
  return {};
}

Result<std::optional<Manifest>> check_dataset(const Workload& workload) {
  const std::string folder = data_folder_of(workload);
  ASSIGN_OR_RETURN(std::optional<Manifest> found, read_manifest(folder));
  if (!found) return found;
  ASSIGN_OR_RETURN(const Manifest wanted, manifest_of(workload));
  RETURN_IF_ERROR(compare_manifests(folder, *found, wanted));
  if (!found->is_complete) {
    return fail(Errc::kNotFound,
                "{}: the dataset is incomplete, because its generation was interrupted; generate "
                "it again: files that are complete are kept",
                printable(folder));
  }
  return found;
}

}  // namespace millrace::bench
