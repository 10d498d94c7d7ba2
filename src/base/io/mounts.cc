#include "base/io/mounts.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "base/io/file.h"

namespace millrace {
namespace {

std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> words;
  while (!line.empty()) {
    const size_t end = std::min(line.find(' '), line.size());
    if (end > 0) words.emplace_back(line.substr(0, end));
    line.remove_prefix(std::min(end + 1, line.size()));
  }
  return words;
}

// The kernel writes spaces, tabs, newlines and backslashes as three octal digits.
std::string unescaped(std::string_view text) {
  const auto octal = [](char c) { return c >= '0' && c <= '7'; };
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool escape = text[i] == '\\' && i + 3 < text.size() && octal(text[i + 1]) &&
                        octal(text[i + 2]) && octal(text[i + 3]);
    if (!escape) {
      out += text[i];
      continue;
    }
    const int code = (text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0');
    out += static_cast<char>(code);
    i += 3;
  }
  return out;
}

// "36 35 98:0 /root /point opts optional... - ext4 /dev/sda rw"
std::optional<Mount> parse_mount(std::string_view line) {
  const std::vector<std::string> words = words_of(line);
  const auto dash = std::find(words.begin(), words.end(), "-");
  if (words.size() < 6 || words.end() - dash < 3) return std::nullopt;
  return Mount{.point = unescaped(words[4]),
               .device = words[2],
               .file_system = *(dash + 1),
               .source = unescaped(*(dash + 2))};
}

bool contains(const std::filesystem::path& point, const std::filesystem::path& path) {
  const auto mismatch = std::mismatch(point.begin(), point.end(), path.begin(), path.end());
  return mismatch.first == point.end() || point == "/";
}

}  // namespace

std::optional<Mount> find_mount(std::string_view mountinfo, const std::filesystem::path& path) {
  std::optional<Mount> best;
  while (!mountinfo.empty()) {
    const size_t end = std::min(mountinfo.find('\n'), mountinfo.size());
    auto mount = parse_mount(mountinfo.substr(0, end));
    mountinfo.remove_prefix(std::min(end + 1, mountinfo.size()));
    if (!mount || !contains(mount->point, path)) continue;
    const bool at_least_as_deep =
        !best || mount->point.native().size() >= best->point.native().size();
    if (at_least_as_deep) best = std::move(mount);
  }
  return best;
}

std::optional<Mount> mount_of(const std::filesystem::path& path) {
  const auto mounts = read_file("/proc/self/mountinfo");
  if (!mounts.ok()) return std::nullopt;
  return find_mount(*mounts, path);
}

bool is_shared(std::string_view file_system) {
  constexpr std::string_view kShared[] = {
      "9p",  "afs",  "beegfs", "ceph",  "cifs", "daos",     "gpfs", "lustre",
      "nfs", "nfs4", "panfs",  "pvfs2", "smb3", "virtiofs", "weka", "wekafs",
  };
  return file_system.starts_with("fuse") ||
         std::ranges::find(kShared, file_system) != std::end(kShared);
}

std::optional<bool> is_rotating(const std::string& device) {
  // A partition has no queue of its own, but its disk, one directory up, has.
  for (const char* queue : {"queue/rotational", "../queue/rotational"}) {
    const auto content = read_file(fmt::format("/sys/dev/block/{}/{}", device, queue), 16);
    if (content.ok() && !content->empty()) return content->front() == '1';
  }
  return std::nullopt;
}

}  // namespace millrace
