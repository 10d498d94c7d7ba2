#include "replay/paths.h"

#include <algorithm>

namespace millrace::replay {
namespace {

void append_parts(std::string_view path, std::string& out) {
  while (!path.empty()) {
    const size_t slash = std::min(path.find('/'), path.size());
    const std::string_view part = path.substr(0, slash);
    path.remove_prefix(std::min(slash + 1, path.size()));
    if (part.empty() || part == ".") continue;
    if (part == "..") {
      out.resize(out.empty() ? 0 : out.rfind('/'));
      continue;
    }
    out += '/';
    out += part;
  }
}

}  // namespace

std::string clean_path(std::string_view path, std::string_view directory) {
  std::string out;
  out.reserve(path.size() + 1);
  if (!path.starts_with('/')) append_parts(directory, out);
  append_parts(path, out);
  return out.empty() ? "/" : out;
}

bool is_storage(std::string_view path) {
  if (path.empty() || path.starts_with('<') || path.starts_with("/memfd:")) return false;
  if (!path.starts_with('/') && path.find(":[") != std::string_view::npos) return false;
  if (path.find('\0') != std::string_view::npos) return false;
  const std::string clean = clean_path(path, "");
  for (const std::string_view root : {"/proc", "/sys", "/dev"}) {
    if (is_below(clean, root)) return false;
  }
  return true;
}

bool is_below(std::string_view path, std::string_view root) {
  if (root == "/") return true;
  return path.starts_with(root) && (path.size() == root.size() || path[root.size()] == '/');
}

std::string_view relative_to(std::string_view path, std::string_view root) {
  path.remove_prefix(root == "/" ? 0 : root.size());
  if (path.starts_with('/')) path.remove_prefix(1);
  return path;
}

std::string_view parent_of(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == 0 || slash == std::string_view::npos ? "/" : path.substr(0, slash);
}

std::string_view common_directory(std::string_view a, std::string_view b) {
  while (!is_below(b, a)) a = parent_of(a);
  return a;
}

uint32_t PathTable::intern(std::string_view path) {
  if (const auto found = indices_.find(path); found != indices_.end()) return found->second;
  const auto index = static_cast<uint32_t>(texts_.size());
  texts_.emplace_back(path);
  indices_.emplace(texts_.back(), index);
  return index;
}

uint32_t PathTable::find(std::string_view path) const {
  const auto found = indices_.find(path);
  return found == indices_.end() ? kNoPath : found->second;
}

}  // namespace millrace::replay
