#include "base/system/cgroup.h"

#include <algorithm>
#include <optional>

#include "base/io/file.h"

namespace millrace {
namespace {

constexpr size_t kProcFileBytes = 4 << 20;  // a node with many containers has many mounts
constexpr size_t kValueBytes = 256;

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

bool lists(std::string_view list, std::string_view word) {
  const auto words = split(list, ',');
  return std::find(words.begin(), words.end(), word) != words.end();
}

// mountinfo writes a space as \040, and so on.
std::string unescaped(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_escape = text[i] == '\\' && i + 3 < text.size() &&
                           std::all_of(text.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                                       text.begin() + static_cast<std::ptrdiff_t>(i) + 4,
                                       [](char c) { return c >= '0' && c <= '7'; });
    if (!is_escape) {
      out += text[i];
      continue;
    }
    out +=
        static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + text[i + 3] - '0');
    i += 3;
  }
  return out;
}

// The path of this process's group within its hierarchy; nullopt if the controller has none.
std::optional<std::string> group_of(std::string_view cgroup, std::string_view controller,
                                    bool is_v2) {
  for (const std::string_view line : split(cgroup, '\n')) {
    const size_t first = line.find(':');
    const size_t second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const bool is_it = is_v2 ? line.starts_with("0::") : lists(controllers, controller);
    if (is_it) return std::string(line.substr(second + 1));
  }
  return std::nullopt;
}

struct Mount {
  std::string root;  // of the hierarchy, what is mounted
  std::string point;
};

// id parent device root point options... - type source options
std::optional<Mount> mount_of(std::string_view mountinfo, std::string_view controller, bool is_v2) {
  for (const std::string_view line : split(mountinfo, '\n')) {
    const size_t dash = line.find(" - ");
    if (dash == line.npos) continue;
    const auto before = split(line.substr(0, dash), ' ');
    const auto after = split(line.substr(dash + 3), ' ');
    if (before.size() < 5 || after.size() < 3) continue;
    const bool is_it =
        is_v2 ? after[0] == "cgroup2" : after[0] == "cgroup" && lists(after[2], controller);
    if (is_it) return Mount{unescaped(before[3]), unescaped(before[4])};
  }
  return std::nullopt;
}

// The group below the mount point. If the mount shows another part of the hierarchy, which happens
// in containers, its root is the innermost group that can be seen.
std::filesystem::path below(const Mount& mount, const std::string& group) {
  const std::string root = mount.root == "/" ? "" : mount.root;
  const bool is_inside = group.starts_with(root) &&
                         (group.size() == root.size() || group[root.size()] == '/') &&
                         group.find("/..") == std::string::npos;
  if (!is_inside) return mount.point;
  return mount.point + (group.size() > root.size() + 1 ? group.substr(root.size()) : "");
}

}  // namespace

std::vector<CgroupPath> cgroup_paths(const CgroupFile& file, std::string_view cgroup,
                                     std::string_view mountinfo) {
  std::vector<CgroupPath> paths;
  for (const bool is_v2 : {true, false}) {
    const auto group = group_of(cgroup, file.controller, is_v2);
    const auto mount = mount_of(mountinfo, file.controller, is_v2);
    if (!group || !mount) continue;
    std::filesystem::path directory = below(*mount, *group);
    const std::string_view name = is_v2 ? file.v2 : file.v1;
    for (;; directory = directory.parent_path()) {
      paths.push_back({directory / name, is_v2});
      if (directory.native().size() <= mount->point.size()) break;
    }
  }
  return paths;
}

std::vector<CgroupValue> cgroup_values(const CgroupFile& file) {
  const auto cgroup = read_file("/proc/self/cgroup", kProcFileBytes);
  const auto mountinfo = read_file("/proc/self/mountinfo", kProcFileBytes);
  if (!cgroup.ok() || !mountinfo.ok()) return {};
  std::vector<CgroupValue> values;
  for (const CgroupPath& path : cgroup_paths(file, *cgroup, *mountinfo)) {
    auto text = read_file(path.path, kValueBytes);
    if (text.ok()) values.push_back({*std::move(text), path.is_v2});
  }
  return values;
}

}  // namespace millrace
