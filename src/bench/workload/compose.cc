#include "bench/workload/compose.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/io/file.h"
#include "base/text/json.h"
#include "base/text/text.h"
#include "base/text/yaml.h"
#include "bench/workload/catalog.h"
#include "bench/workload/override.h"
#include "bench/workload/tree.h"

namespace millrace::bench {
namespace {

using Kind = Node::Kind;

constexpr uint64_t kFileSizeMaxBytes = uint64_t{1} << 20;
constexpr size_t kFileCountMax = 64;

bool is_map(const Node& node) { return node.kind() == Kind::kMap; }

// What follows "# @package" in the comment that opens a file: "_global_", "workload.train".
std::string_view package_of(std::string_view text) {
  while (text.starts_with('#')) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    if (const size_t at = line.find("@package "); at != std::string_view::npos) {
      const std::string_view name = line.substr(at + 9);
      return name.substr(0, name.find_last_not_of(" \t\r") + 1);
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return {};
}

// The path that a file's keys belong to, below the workload.
std::vector<std::string> package_path(std::string_view package) {
  if (package.empty() || package.starts_with('_') || package == "workload") return {};
  std::vector<std::string> path = path_of(package);
  if (path.front() == "workload") path.erase(path.begin());
  return path;
}

// One entry of a defaults list: which file, and the section that it fills.
struct DefaultsEntry {
  bool is_self = false;
  bool is_optional = false;
  std::string group;  // empty: a file beside this one
  std::string file;   // empty: nothing to load
};

std::string_view without_prefix(std::string_view text, std::string_view prefix) {
  return text.starts_with(prefix) ? text.substr(prefix.size()) : text;
}

DefaultsEntry entry_of(const Node& item) {
  DefaultsEntry out;
  if (!is_map(item)) {
    out.is_self = item.text() == "_self_";
    out.file = out.is_self ? "" : item.text();
    return out;
  }
  if (item.members().size() != 1) return out;
  const auto& [key, value] = item.members().front();
  std::string_view group = key;
  out.is_optional = group.starts_with("optional ");
  group = without_prefix(group, "optional ");
  if (group.starts_with("override ")) return out;
  group = without_prefix(group, "/");
  group = group.substr(0, group.find('@'));
  if (group == "hydra" || group.starts_with("hydra/")) return out;
  out.group = group == "workload" ? "" : group;
  out.file = value.text();
  return out;
}

class Composer {
 public:
  // `reads_files`: whether defaults lists may name files.
  Composer(std::filesystem::path config_dir, bool reads_files)
      : config_dir_(std::move(config_dir)), reads_files_(reads_files) {}

  // The workload in a file, with what it builds on.
  Result<Node> load(const std::filesystem::path& path) {
    ASSIGN_OR_RETURN(const std::string text,
                     read_file(path, kFileSizeMaxBytes).within(printable(path.string())));
    return load_text(text, path);
  }

  Result<Node> load_text(std::string_view text, const std::filesystem::path& path) {
    if (++file_count_ > kFileCountMax) {
      return fail(Errc::kInvalidArgument,
                  "{}: its defaults lists name more than {} files; does one name itself?",
                  printable(path.string()), kFileCountMax);
    }
    ASSIGN_OR_RETURN(const Node root, parsed(text, path.string()));
    ASSIGN_OR_RETURN(Node self, own_keys(root, text));
    const Node* const defaults = root.find("defaults");
    if (defaults == nullptr) return self;
    return with_defaults(std::move(self), *defaults, path);
  }

  Status apply(const std::string& text, Node& root) {
    ASSIGN_OR_RETURN(const Override change, parse_override(text));
    const uint32_t lines = begin_part(override_name(text), 1, /*has_lines=*/false);
    switch (change.kind) {
      case Override::Kind::kSet: {
        ASSIGN_OR_RETURN(const Node node,
                         tidied(wrapped(change.path, moved_down(change.value, lines))));
        root = merged(root, node);
        return {};
      }
      case Override::Kind::kDelete: {
        std::optional<Node> rest = without(root, tidied_path(change.path));
        if (!rest) return fail(Errc::kNotFound, "{}: there is no such key", override_name(text));
        root = *std::move(rest);
        return {};
      }
      case Override::Kind::kWorkload:
      case Override::Kind::kIgnored:
        return {};
    }
    return {};
  }

  Result<Document> finish(Node root, std::string name) && {
    document_.name = std::move(name);
    document_.root = std::move(root);
    ASSIGN_OR_RETURN(document_.root, interpolated(document_));
    return std::move(document_);
  }

 private:
  // Returns by how many lines a value of the part must move down.
  uint32_t begin_part(std::string name, size_t line_count, bool has_lines) {
    const uint32_t first_line = next_line_;
    document_.parts.push_back({first_line, std::move(name), has_lines});
    next_line_ += static_cast<uint32_t>(line_count);
    return first_line - 1;
  }

  Result<Node> parsed(std::string_view text, const std::string& name) {
    const std::string shown = printable(name);
    ASSIGN_OR_RETURN(const Document document,
                     name.ends_with(".json") ? parse_json(text, shown) : parse_yaml(text, shown));
    const auto line_count = static_cast<size_t>(std::count(text.begin(), text.end(), '\n')) + 2;
    const uint32_t lines = begin_part(shown, line_count, /*has_lines=*/true);
    Node root = moved_down(document.root, lines);
    if (is_map(root)) return root;
    if (root.is_null()) return Node(Kind::kMap, root.line());
    return complain(
        root, fmt::format("expected keys such as dataset and train, found {}", describe(root)));
  }

  // What the file itself says about the workload.
  Result<Node> own_keys(const Node& root, std::string_view text) const {
    const Node* const inner = root.find("workload");
    const bool is_around = inner != nullptr && is_map(*inner);
    Node self(Kind::kMap, root.line());
    for (const auto& [name, member] : root.members()) {
      const bool is_of_hydra = name == "defaults" || name == "hydra" || name == "workload";
      if (!is_of_hydra && !is_around) self.add(name, member);
    }
    ASSIGN_OR_RETURN(const Node tidy, tidied(is_around ? *inner : self));
    return wrapped(package_path(package_of(text)), tidy);
  }

  Result<Node> with_defaults(Node self, const Node& defaults, const std::filesystem::path& path) {
    if (defaults.kind() != Kind::kList) return complain(defaults, "defaults: expected a list");
    Node out(Kind::kMap, self.line());
    bool has_self = false;
    for (const Node& item : defaults.items()) {
      const DefaultsEntry entry = entry_of(item);
      if (entry.is_self) {
        if (std::exchange(has_self, true)) return complain(item, "_self_ appears twice");
        out = merged(out, self);
      } else if (!entry.file.empty()) {
        ASSIGN_OR_RETURN(const Node base, load_entry(entry, item, path));
        out = merged(out, base);
      }
    }
    return has_self ? out : merged(out, self);
  }

  Result<Node> load_entry(const DefaultsEntry& entry, const Node& item,
                          const std::filesystem::path& path) {
    std::string file = entry.file;
    if (!has_workload_extension(file)) file += ".yaml";
    const std::filesystem::path folder = path.parent_path();
    for (const std::filesystem::path& place :
         {folder / entry.group / file, folder / "workload" / file,
          folder.parent_path() / entry.group / file, config_dir_ / "workload" / file}) {
      std::error_code error;
      if (!reads_files_ || !std::filesystem::is_regular_file(place, error)) continue;
      ASSIGN_OR_RETURN(Node node, load(place));
      if (entry.group.empty()) return node;
      return wrapped(path_of(entry.group), std::move(node));
    }
    if (entry.is_optional) return Node(Kind::kMap, item.line());
    return complain(item,
                    fmt::format("there is no {} beside this file",
                                printable((entry.group.empty() ? "" : entry.group + "/") + file)));
  }

  // Renames `data_reader`, and makes a section of a model that is only a name.
  Result<Node> tidied(const Node& root) const {
    if (!is_map(root)) return root;
    if (root.find("data_reader") != nullptr && root.find("reader") != nullptr) {
      return complain(*root.find("data_reader"),
                      "data_reader and reader are the same section; keep one");
    }
    Node out(Kind::kMap, root.line());
    for (const auto& [name, member] : root.members()) {
      const bool is_name =
          name == "model" && (member.kind() == Kind::kPlain || member.kind() == Kind::kString);
      const std::string inner = "name";
      out.add(name == "data_reader" ? "reader" : name,
              is_name ? wrapped({&inner, 1}, member) : member);
    }
    return out;
  }

  static std::vector<std::string> tidied_path(std::vector<std::string> path) {
    if (path.front() == "data_reader") path.front() = "reader";
    return path;
  }

  Error complain(const Node& node, std::string_view message) const {
    return document_.complain(Errc::kInvalidArgument, node.line(), message);
  }

  std::filesystem::path config_dir_;
  bool reads_files_;
  Document document_;
  uint32_t next_line_ = 1;
  size_t file_count_ = 0;
};

// The workload that an override chooses; empty: none does.
Result<std::string> chosen_by(std::span<const std::string> overrides) {
  std::string name;
  for (const std::string& text : overrides) {
    ASSIGN_OR_RETURN(const Override change, parse_override(text));
    if (change.kind == Override::Kind::kWorkload) name = change.value.text();
  }
  return name;
}

Error no_choice() {
  return fail(Errc::kInvalidArgument,
              "which workload? Name one that `millrace bench list` shows, or a YAML file");
}

// The file to begin with. If nobody chose a workload, the config.yaml of the folder does.
Result<std::filesystem::path> file_of(const std::string& name,
                                      const std::filesystem::path& config_dir) {
  if (!name.empty()) return find_workload(name, config_dir);
  if (!config_dir.empty()) return config_dir / "config.yaml";
  return no_choice();
}

}  // namespace

Result<Composition> compose(std::string_view workload, std::span<const std::string> overrides,
                            const std::filesystem::path& config_dir) {
  ASSIGN_OR_RETURN(std::string name, chosen_by(overrides));
  if (name.empty()) name = without_prefix(workload, "workload=");
  ASSIGN_OR_RETURN(const std::filesystem::path path, file_of(name, config_dir));
  Composer composer(config_dir, /*reads_files=*/true);
  ASSIGN_OR_RETURN(Node root, composer.load(path));
  if (name.empty() && root.members().empty()) return no_choice();
  for (const std::string& text : overrides) RETURN_IF_ERROR(composer.apply(text, root));
  ASSIGN_OR_RETURN(const std::string text, read_file(path, kFileSizeMaxBytes));
  Composition out;
  ASSIGN_OR_RETURN(out.document,
                   std::move(composer).finish(std::move(root), printable(path.string())));
  out.name = path.stem().string();
  out.description = opening_comment(text);
  return out;
}

Result<Composition> compose_text(std::string_view text, const std::string& file,
                                 std::span<const std::string> overrides) {
  Composer composer({}, /*reads_files=*/false);
  ASSIGN_OR_RETURN(Node root, composer.load_text(text, file));
  for (const std::string& change : overrides) RETURN_IF_ERROR(composer.apply(change, root));
  Composition out;
  ASSIGN_OR_RETURN(out.document, std::move(composer).finish(std::move(root), printable(file)));
  out.name = std::filesystem::path(file).stem().string();
  out.description = opening_comment(text);
  return out;
}

}  // namespace millrace::bench
