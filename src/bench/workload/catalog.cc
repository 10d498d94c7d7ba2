#include "bench/workload/catalog.h"

#include <algorithm>

#include "base/io/file.h"
#include "base/system/own_library.h"
#include "base/text/spelling.h"
#include "base/text/text.h"

namespace millrace::bench {
namespace {

constexpr uint64_t kFileSizeMaxBytes = uint64_t{1} << 20;
constexpr const char* kExtensions[] = {".yaml", ".yml", ".json"};

bool is_file(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error);
}

std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    if (has_workload_extension(at->path().string())) names.push_back(at->path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

Error no_workload(std::string_view name, const std::filesystem::path& config_dir) {
  std::vector<std::string> known = names_in(workload_folder());
  if (!config_dir.empty()) {
    const std::vector<std::string> others = names_in(config_dir / "workload");
    known.insert(known.begin(), others.begin(), others.end());
  }
  return fail(Errc::kNotFound,
              "there is no workload '{}'{}; `millrace bench list` shows all, and a path such as "
              "./{}.yaml takes a file",
              printable(name), did_you_mean(name, known), printable(name));
}

}  // namespace

bool has_workload_extension(std::string_view name) {
  return std::any_of(std::begin(kExtensions), std::end(kExtensions),
                     [&](const char* extension) { return name.ends_with(extension); });
}

std::filesystem::path workload_folder() {
  return (own_folder() / ".." / MILLRACE_DATADIR / "millrace" / "workloads").lexically_normal();
}

std::vector<CatalogEntry> list_workloads() {
  std::vector<CatalogEntry> entries;
  const std::filesystem::path folder = workload_folder();
  for (const std::string& name : names_in(folder)) {
    const std::filesystem::path path = folder / (name + ".yaml");
    const Result<std::string> text = read_file(path, kFileSizeMaxBytes);
    if (text.ok()) entries.push_back({name, first_sentence(opening_comment(*text)), path});
  }
  return entries;
}

Result<std::filesystem::path> find_workload(std::string_view name,
                                            const std::filesystem::path& config_dir) {
  const bool is_path = name.find('/') != std::string_view::npos || has_workload_extension(name);
  if (is_path && is_file(name)) return std::filesystem::path(name);
  std::vector<std::filesystem::path> folders = {workload_folder()};
  if (!config_dir.empty()) {
    folders.insert(folders.begin(), {config_dir / "workload", config_dir});
  }
  for (const std::filesystem::path& folder : folders) {
    for (const char* extension : {"", ".yaml", ".yml", ".json"}) {
      const std::filesystem::path path = folder / (std::string(name) + extension);
      if (is_file(path)) return path;
    }
  }
  if (is_path) return std::filesystem::path(name);  // opening it says why not
  return no_workload(name, config_dir);
}

std::string opening_comment(std::string_view text) {
  std::string out;
  bool is_new_line = true;
  while (text.starts_with('#')) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(1, end - 1);
    text.remove_prefix(std::min(end + 1, text.size()));
    const size_t begin = line.find_first_not_of(" \t");
    line = begin == std::string_view::npos ? std::string_view() : line.substr(begin);
    line = line.substr(0, line.find_last_not_of(" \t\r") + 1);
    if (line.starts_with("@package")) continue;
    if (line.empty()) {
      if (!is_new_line) out += '\n';
      is_new_line = true;
      continue;
    }
    if (!is_new_line) out += ' ';
    out += line;
    is_new_line = false;
  }
  while (out.ends_with('\n')) out.pop_back();
  return out;
}

std::string first_sentence(std::string_view text) {
  const std::string_view paragraph = text.substr(0, text.find('\n'));
  const size_t end = paragraph.find(". ");
  return std::string(end == std::string_view::npos ? paragraph : paragraph.substr(0, end + 1));
}

}  // namespace millrace::bench
