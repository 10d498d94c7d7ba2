#include <algorithm>
#include <string_view>
#include <vector>

#include "base/text/text.h"
#include "bench/workload/keys.h"
#include "bench/workload/load.h"
#include "bench/workload/tree.h"

namespace millrace::bench {
namespace {

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
