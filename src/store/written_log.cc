#include "store/written_log.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <charconv>

#include "base/directory.h"
#include "base/phrases.h"
#include "base/text.h"
#include "base/units.h"
#include "wire/store_name.h"
#include "wire/store_state.h"

namespace millrace::store {
namespace {

namespace fs = std::filesystem;

constexpr size_t kFilesShown = 20;

std::string escape_path(std::string_view path) {
  std::string out;
  for (const char c : path) {
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\\') {
      out += "\\\\";
    } else {
      out += c;
    }
  }
  return out;
}

// False if an escape is unknown.
bool unescape_path(std::string_view text, std::string& out) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      out += text[i];
      continue;
    }
    if (++i == text.size() || (text[i] != 'n' && text[i] != '\\')) return false;
    out += text[i] == 'n' ? '\n' : '\\';
  }
  return true;
}

// Takes a number and the space after it.
template <typename Number>
bool take_number(std::string_view& text, Number& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  const auto size = static_cast<size_t>(end - text.data());
  if (error != std::errc{} || size == text.size() || text[size] != ' ') return false;
  text.remove_prefix(size + 1);
  return true;
}

bool has_version(LogKind kind) { return kind == LogKind::kDurable || kind == LogKind::kOther; }

bool parse_line(std::string_view text, LogLine& line) {
  if (text.size() < 2 || text[1] != ' ') return false;
  line.kind = static_cast<LogKind>(text[0]);
  text.remove_prefix(2);
  if (has_version(line.kind) &&
      (!take_number(text, line.version.size_bytes) || !take_number(text, line.version.mtime_ns) ||
       !take_number(text, line.version.inode))) {
    return false;
  }
  const bool is_known = line.kind == LogKind::kToken || line.kind == LogKind::kDirectory ||
                        line.kind == LogKind::kFlushing || line.kind == LogKind::kDurable ||
                        line.kind == LogKind::kGone || line.kind == LogKind::kOther;
  return is_known && unescape_path(text, line.path) && is_safe_path(line.path) &&
         (!line.path.empty() || line.kind == LogKind::kDirectory);
}

void apply_line(LogLine line, WrittenLog& log) {
  switch (line.kind) {
    case LogKind::kToken:
      log.token = std::move(line.path);
      return;
    case LogKind::kDirectory:
      log.directories.insert(std::move(line.path));
      return;
    case LogKind::kFlushing:
      log.flushing = std::move(line.path);
      return;
    case LogKind::kDurable:
      log.flushing.clear();
      log.durable.insert_or_assign(std::move(line.path), line.version);
      return;
    case LogKind::kGone:
      log.durable.erase(line.path);
      return;
    case LogKind::kOther:
      log.others.insert(line.version);
      return;
  }
}

// What is in a directory and below it, without what is in the catalogue.
template <typename Each>
void walk_written(const fs::path& tree, const Catalogue& catalogue, const std::string& directory,
                  const Each& each) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(tree / directory, error)) {
    std::string path = directory.empty() ? entry.path().filename().string()
                                         : directory + '/' + entry.path().filename().string();
    if (catalogue.find(path)) continue;
    struct stat status{};
    if (::lstat(entry.path().c_str(), &status) != 0) continue;
    if (S_ISDIR(status.st_mode)) walk_written(tree, catalogue, path, each);
    each(std::move(path), status);
  }
}

}  // namespace

bool is_safe_path(std::string_view path) {
  if (path.find('\0') != std::string_view::npos) return false;
  while (!path.empty()) {
    const size_t slash = path.find('/');
    const std::string_view name = path.substr(0, slash);
    if (name.empty() || name == "." || name == "..") return false;
    if (slash == std::string_view::npos) return true;
    path.remove_prefix(slash + 1);
    if (path.empty()) return false;
  }
  return true;
}

FileVersion FileVersion::of(const struct stat& status) {
  return {.size_bytes = static_cast<uint64_t>(status.st_size),
          .mtime_ns = int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec,
          .inode = status.st_ino};
}

std::string format_log_line(const LogLine& line) {
  const char kind = static_cast<char>(line.kind);
  const FileVersion& version = line.version;
  if (!has_version(line.kind)) return fmt::format("{} {}\n", kind, escape_path(line.path));
  return fmt::format("{} {} {} {} {}\n", kind, version.size_bytes, version.mtime_ns, version.inode,
                     escape_path(line.path));
}

Result<WrittenLog> parse_written_log(std::string_view text) {
  WrittenLog log;
  for (size_t number = 1;; ++number) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) return log;
    LogLine line;
    if (!parse_line(text.substr(0, end), line)) {
      return fail(Errc::kCorrupt, "line {} is not one of a log: '{}'", number,
                  printable(text.substr(0, std::min<size_t>(end, 80))));
    }
    apply_line(std::move(line), log);
    text.remove_prefix(end + 1);
  }
}

Result<WrittenLog> read_written_log(const fs::path& node) {
  const fs::path path = node / wire::kStoreWrittenFile;
  std::error_code error;
  if (!fs::exists(path, error)) return WrittenLog{};
  ASSIGN_OR_RETURN(const std::string text, read_file(path));
  return parse_written_log(text).within(printable(path.string()));
}

Status WrittenLogFile::append(const LogLine& line) {
  const std::string text = format_log_line(line);
  const std::lock_guard lock(mutex_);
  if (!file_.is_open()) {
    ASSIGN_OR_RETURN(file_, File::open(node_ / wire::kStoreWrittenFile,
                                       O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600));
  }
  RETURN_IF_ERROR(file_.write_at(size_bytes_, std::as_bytes(std::span(text.data(), text.size()))));
  size_bytes_ += text.size();
  return {};
}

std::string_view name_of(WrittenState state) {
  return state == WrittenState::kDurable    ? "DURABLE"
         : state == WrittenState::kFlushing ? "FLUSHING"
                                            : "LOCAL";
}

std::optional<std::string> read_link(const fs::path& name) {
  std::error_code error;
  const fs::path target = fs::read_symlink(name, error);
  if (error) return std::nullopt;
  return target.native();
}

bool is_shown(const fs::path& name) {
  const auto target = read_link(name);
  return target && wire::is_shown_target(*target);
}

std::vector<WrittenFile> list_written(const fs::path& node, const Catalogue& catalogue,
                                      const WrittenLog& log) {
  const fs::path tree = node / wire::kStoreTreeDirectory;
  std::vector<WrittenFile> files;
  const auto add = [&](std::string path, const struct stat& status) {
    WrittenFile file{.path = std::move(path), .version = FileVersion::of(status)};
    if (S_ISLNK(status.st_mode)) {
      const auto target = read_link(tree / file.path);  // nothing: it is gone
      if (!target || wire::is_shown_target(*target) || log.others.contains(file.version)) return;
    } else if (!S_ISREG(status.st_mode)) {
      return;
    }
    const auto saved = log.durable.find(file.path);
    if (saved != log.durable.end() && saved->second == file.version) {
      file.state = WrittenState::kDurable;
    } else if (log.flushing == file.path) {
      file.state = WrittenState::kFlushing;
    }
    files.push_back(std::move(file));
  };
  for (const std::string& directory : log.directories) {
    walk_written(tree, catalogue, directory, add);
  }
  std::stable_sort(files.begin(), files.end(), [](const WrittenFile& a, const WrittenFile& b) {
    return a.version.mtime_ns < b.version.mtime_ns;
  });
  return files;
}

Result<std::vector<WrittenFile>> list_written(const fs::path& node) {
  ASSIGN_OR_RETURN(const WrittenLog log, read_written_log(node));
  if (log.directories.empty()) return std::vector<WrittenFile>{};
  ASSIGN_OR_RETURN(const Catalogue catalogue, Catalogue::open(node / wire::kStoreCatalogueFile));
  return list_written(node, catalogue, log);
}

Result<std::vector<RemoteFile>> list_remote(const fs::path& node, const fs::path& save) {
  std::vector<RemoteFile> files;
  ASSIGN_OR_RETURN(const WrittenLog log, read_written_log(node));
  if (log.directories.empty()) return files;
  ASSIGN_OR_RETURN(const Catalogue catalogue, Catalogue::open(node / wire::kStoreCatalogueFile));
  const fs::path tree = node / wire::kStoreTreeDirectory;
  const auto add = [&](std::string path, const struct stat& status) {
    std::error_code error;
    wire::RemoteName name;
    if (!S_ISLNK(status.st_mode) ||
        !wire::parse_remote_target(fs::read_symlink(tree / path, error).native(), name)) {
      return;
    }
    struct stat saved{};
    const bool is_durable = !save.empty() && ::stat((save / path).c_str(), &saved) == 0 &&
                            FileVersion::of(saved).size_bytes == name.size_bytes &&
                            FileVersion::of(saved).mtime_ns == name.mtime_ns;
    if (is_durable) return;
    files.push_back({.path = std::move(path), .rank = name.rank, .size_bytes = name.size_bytes});
  };
  for (const std::string& directory : log.directories) {
    walk_written(tree, catalogue, directory, add);
  }
  std::sort(files.begin(), files.end(),
            [](const RemoteFile& a, const RemoteFile& b) { return a.path < b.path; });
  return files;
}

Result<std::vector<WrittenFile>> rescue_written(const fs::path& node, const fs::path& to) {
  ASSIGN_OR_RETURN(std::vector<WrittenFile> files, list_written(node));
  std::erase_if(files, [](const WrittenFile& f) { return f.state == WrittenState::kDurable; });
  for (const WrittenFile& file : files) {
    const fs::path target = to / file.path;
    RETURN_IF_ERROR(make_directories(target.parent_path()));
    const fs::path source = node / wire::kStoreTreeDirectory / file.path;
    if (::rename(source.c_str(), target.c_str()) != 0) {
      return fail_os(errno, "cannot move it").within(printable(source.string()));
    }
  }
  return files;
}

std::vector<std::string> describe_written(const std::vector<WrittenFile>& files) {
  std::vector<std::string> lines;
  for (size_t i = 0; i < files.size() && i < kFilesShown; ++i) {
    lines.push_back(
        fmt::format("{}, {}", printable(files[i].path), format_bytes(files[i].version.size_bytes)));
  }
  if (files.size() > kFilesShown) {
    lines.push_back(fmt::format("and {} more", files.size() - kFilesShown));
  }
  return lines;
}

}  // namespace millrace::store
