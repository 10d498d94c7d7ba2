#include "bench/workload/load.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/text/text.h"
#include "bench/workload/check.h"
#include "bench/workload/compose.h"
#include "bench/workload/keys.h"
#include "bench/workload/scale.h"
#include "bench/workload/tree.h"

namespace millrace::bench {
namespace {

// The line of a key; of the section around it if the file does not have the key.
uint32_t line_of(const Document& document, std::string_view key) {
  std::vector<std::string> path = path_of(key);
  for (; !path.empty(); path.pop_back()) {
    if (const Node* const node = find_at(document.root, path); node != nullptr) return node->line();
  }
  return document.root.line();
}

Status judge(const Document& document, Workload& workload) {
  for (const Contradiction& each : contradictions(workload)) {
    const uint32_t line = line_of(document, each.key);
    const std::string message = fmt::format("{}: {}", each.key, each.message);
    if (each.is_error) return document.complain(Errc::kInvalidArgument, line, message);
    workload.warnings.push_back(fmt::format("{}: {}", document.place_of(line), message));
  }
  return {};
}

Result<Workload> workload_of(const Composition& composition) {
  ASSIGN_OR_RETURN(Workload workload, read_keys(composition.document));
  workload.name = composition.name;
  // Hydra's main file says nothing about what it runs.
  if (workload.name == "config" && !workload.model.name.empty()) {
    workload.name = workload.model.name;
  }
  workload.description = composition.description;
  RETURN_IF_ERROR(judge(composition.document, workload));
  const bool has_length =
      find_at(composition.document.root, path_of("dataset.record_length_bytes")) != nullptr;
  if (std::string note = take_length_of_dims(workload); has_length && !note.empty()) {
    const uint32_t line = line_of(composition.document, "dataset.record_length_bytes");
    workload.warnings.push_back(fmt::format("{}: {}", composition.document.place_of(line), note));
  }
  return workload;
}

// ---- writing ----

constexpr size_t kColumns = 98;

std::string comment_of(std::string_view description) {
  std::string out;
  while (!description.empty()) {
    const size_t end = std::min(description.find('\n'), description.size());
    if (!out.empty()) out += "#\n";
    for (const std::string& line : wrap(description.substr(0, end), kColumns)) {
      out += fmt::format("# {}\n", line);
    }
    description.remove_prefix(std::min(end + 1, description.size()));
  }
  return out;
}

// Adds "key: value", and before it the sections that it is in and the key before it was not.
void add_line(const Key& key, const std::string& value, std::vector<std::string>& open,
              std::string& out) {
  std::vector<std::string> path = path_of(key.name);
  const std::string leaf = path.back();
  path.pop_back();
  const auto [same, unused] = std::mismatch(path.begin(), path.end(), open.begin(), open.end());
  for (auto level = same; level != path.end(); ++level) {
    const auto depth = static_cast<size_t>(level - path.begin());
    out += fmt::format("{}{}:\n", std::string(depth * 2, ' '), *level);
  }
  out += fmt::format("{}{}: {}\n", std::string(path.size() * 2, ' '), leaf, value);
  open = path;
}

}  // namespace

Result<Workload> load_workload(const LoadOptions& options) {
  std::error_code error;
  if (!options.config_dir.empty() && !std::filesystem::is_directory(options.config_dir, error)) {
    return fail(Errc::kNotFound, "--config-dir {}: there is no such folder",
                printable(options.config_dir.string()));
  }
  ASSIGN_OR_RETURN(const Composition composition,
                   compose(options.workload, options.overrides, options.config_dir));
  ASSIGN_OR_RETURN(Workload workload, workload_of(composition));
  if (options.scale != 1) RETURN_IF_ERROR(scale(workload, options.scale));
  return workload;
}

Result<Workload> parse_workload(std::string_view text, const std::string& file,
                                std::span<const std::string> overrides) {
  ASSIGN_OR_RETURN(const Composition composition, compose_text(text, file, overrides));
  return workload_of(composition);
}

std::string to_yaml(const Workload& workload) {
  const Workload defaults = default_workload();
  std::string out = comment_of(workload.description);
  std::vector<std::string> open;
  for (const Key& key : keys()) {
    const bool is_of_transformer = key.name.starts_with("model.transformer.");
    if (is_of_transformer && !workload.model.transformer) continue;
    const std::string value = value_text(key, workload);
    // A framework that is written changes these defaults.
    const bool is_of_framework =
        workload.framework != defaults.framework &&
        (key.name == "reader.data_loader" || key.name == "checkpoint.layout");
    // All of a transformer, because the section itself means something.
    if (is_of_transformer || is_of_framework || value != value_text(key, defaults)) {
      add_line(key, value, open, out);
    }
  }
  return out;
}

}  // namespace millrace::bench
