#include "bench/workload/own_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <map>
#include <memory>

#include "base/bytes.h"
#include "base/io/file.h"

namespace millrace::bench {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kUnknown = "- - - ";
constexpr uint64_t kListBytesMax = uint64_t{1} << 28;

OwnFile::Identity identity_of(const struct stat& status) {
  return {.size_bytes = static_cast<uint64_t>(status.st_size),
          .inode = status.st_ino,
          .modified_ns = int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec};
}

template <typename Number>
bool take_number(std::string_view& text, Number& number) {
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  if (failed != std::errc() || !text.starts_with(' ')) return false;
  text.remove_prefix(1);
  return true;
}

std::optional<OwnFile> parse_line(std::string_view line) {
  OwnFile file;
  if (line.starts_with(kUnknown)) {
    line.remove_prefix(kUnknown.size());
  } else {
    OwnFile::Identity identity;
    if (!take_number(line, identity.size_bytes) || !take_number(line, identity.inode) ||
        !take_number(line, identity.modified_ns)) {
      return std::nullopt;
    }
    file.identity = identity;
  }
  if (line.empty()) return std::nullopt;
  file.name = line;
  return file;
}

Result<std::vector<std::string>> names_in(const File& folder) {
  const int fd = openat(folder.fd(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(fd < 0 ? nullptr : fdopendir(fd), &closedir);
  if (!stream) return fail_os(errno, "cannot list it");
  std::vector<std::string> names;
  while (const dirent* entry = readdir(stream.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  std::ranges::sort(names);
  return names;
}

// An open folder, its lists, and which of its files are ours.
class ListedFolder {
 public:
  // Nullopt if it does not exist. A link is not followed.
  static Result<std::optional<ListedFolder>> open(const fs::path& path) {
    ListedFolder listed;
    listed.folder_ = File(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!listed.folder_.is_open()) {
      if (errno == ENOENT) return std::optional<ListedFolder>();
      return fail_os(errno, "cannot open the folder").within(path.native());
    }
    ASSIGN_OR_RETURN(listed.names_, names_in(listed.folder_).within(path.native()));
    for (const std::string& name : listed.names_) {
      if (!name.starts_with(kOwnFilesName)) continue;
      ASSIGN_OR_RETURN(const std::string text, listed.read_list(name).within(path.native()));
      for (OwnFile& file : parse_own_files(text)) {
        listed.files_.insert_or_assign(std::move(file.name), file.identity);
      }
    }
    return std::optional<ListedFolder>(std::move(listed));
  }

  std::vector<std::string> entries(bool are_ours) const {
    std::vector<std::string> found;
    for (const std::string& name : names_) {
      if (!is_list(name) && is_ours(name) == are_ours) found.push_back(name);
    }
    return found;
  }

  Result<std::vector<std::string>> remove(const fs::path& path) const {
    const bool is_all_ours =
        entries(/*are_ours=*/false).empty();  // else the lists stay, for the next time
    return remove_if(
        path, [&](const std::string& name) { return is_list(name) ? is_all_ours : is_ours(name); });
  }

  Result<std::vector<std::string>> remove_if(
      const fs::path& path, const std::function<bool(const std::string&)>& is_ours) const {
    for (const std::string& name : names_) {
      struct stat status{};
      if (fstatat(folder_.fd(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0 ||
          !S_ISREG(status.st_mode) || !is_ours(name)) {
        continue;
      }
      if (unlinkat(folder_.fd(), name.c_str(), 0) != 0 && errno != ENOENT) {
        return fail_os(errno, "cannot remove it").within((path / name).native());
      }
    }
    ASSIGN_OR_RETURN(std::vector<std::string> left, names_in(folder_).within(path.native()));
    if (left.empty() && rmdir(path.c_str()) != 0 && errno != ENOENT && errno != ENOTEMPTY) {
      return fail_os(errno, "cannot remove it").within(path.native());
    }
    std::erase_if(left, [&](const std::string& name) { return is_list(name); });
    return left;
  }

 private:
  // Only a list that lists something makes a folder ours.
  bool is_list(const std::string& name) const {
    return name.starts_with(kOwnFilesName) && !files_.empty();
  }

  bool is_ours(const std::string& name) const {
    const auto listed = files_.find(name);
    struct stat status{};
    if (listed == files_.end()) return false;
    if (fstatat(folder_.fd(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
      return errno == ENOENT;
    }
    return S_ISREG(status.st_mode) && (!listed->second || *listed->second == identity_of(status));
  }

  Result<std::string> read_list(const std::string& name) const {
    const File file(
        openat(folder_.fd(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat status{};
    if (!file.is_open() || fstat(file.fd(), &status) != 0 || !S_ISREG(status.st_mode) ||
        static_cast<uint64_t>(status.st_size) > kListBytesMax) {
      return std::string();
    }
    std::string text(static_cast<size_t>(status.st_size), '\0');
    ASSIGN_OR_RETURN(const size_t size,
                     file.read_at(0, std::as_writable_bytes(std::span(text))).within(name));
    text.resize(size);
    return text;
  }

  File folder_;
  std::vector<std::string> names_;
  std::map<std::string, std::optional<OwnFile::Identity>, std::less<>> files_;
};

}  // namespace

Result<std::vector<OwnFile>> look_at_files(const fs::path& folder,
                                           std::span<const std::string> names) {
  std::vector<OwnFile> files;
  for (const std::string& name : names) {
    struct stat status{};
    if (lstat((folder / name).c_str(), &status) != 0) {
      return fail_os(errno, "cannot read its attributes").within((folder / name).native());
    }
    files.push_back({.name = name, .identity = identity_of(status)});
  }
  return files;
}

std::string own_files_text(std::span<const OwnFile> files) {
  std::string text;
  for (const OwnFile& file : files) {
    const auto& identity = file.identity;
    text += identity ? fmt::format("{} {} {} ", identity->size_bytes, identity->inode,
                                   identity->modified_ns)
                     : std::string(kUnknown);
    text += file.name + "\n";
  }
  return text;
}

std::vector<OwnFile> parse_own_files(std::string_view text) {
  std::vector<OwnFile> files;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) break;  // a line that was cut off
    if (auto file = parse_line(text.substr(0, end))) files.push_back(*std::move(file));
    text.remove_prefix(end + 1);
  }
  return files;
}

Status write_own_files(const fs::path& folder, std::string_view text, std::string_view suffix) {
  const fs::path path = folder / fmt::format("{}{}", kOwnFilesName, suffix);
  ASSIGN_OR_RETURN(File file, File::open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600));
  RETURN_IF_ERROR(file.write_at(0, bytes_of(text)).within(path.native()));
  return file.close().within(path.native());
}

Result<File> hold_folder(const fs::path& folder) {
  ASSIGN_OR_RETURN(File held, File::open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  while (flock(held.fd(), LOCK_SH) != 0 && errno == EINTR) {
  }
  struct stat locked{};
  struct stat named{};
  if (fstat(held.fd(), &locked) == 0 && lstat(folder.c_str(), &named) == 0 &&
      locked.st_ino == named.st_ino && locked.st_dev == named.st_dev) {
    return held;
  }
  return fail(Errc::kNotFound, "{}: another run has just removed it; run again", folder.native());
}

std::optional<File> claim_folder(const fs::path& folder) {
  File claimed(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  const bool is_held =
      claimed.is_open() && flock(claimed.fd(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  if (is_held) return std::nullopt;
  return claimed;
}

Result<std::vector<std::string>> find_foreign(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(path, error);
  if (status.type() == fs::file_type::not_found) return std::vector<std::string>();
  if (status.type() != fs::file_type::directory) {
    return std::vector<std::string>{path.filename().string()};
  }
  ASSIGN_OR_RETURN(const auto folder, ListedFolder::open(path));
  return folder ? folder->entries(/*are_ours=*/false) : std::vector<std::string>();
}

Result<std::vector<std::string>> find_own(const fs::path& path) {
  ASSIGN_OR_RETURN(const auto folder, ListedFolder::open(path));
  return folder ? folder->entries(/*are_ours=*/true) : std::vector<std::string>();
}

Result<std::vector<std::string>> remove_files_if(
    const fs::path& path, const std::function<bool(const std::string&)>& is_ours) {
  ASSIGN_OR_RETURN(const auto folder, ListedFolder::open(path));
  return folder ? folder->remove_if(path, is_ours) : std::vector<std::string>();
}

std::optional<int64_t> modified_ns_of(const fs::path& path) {
  struct stat status{};
  if (lstat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  return identity_of(status).modified_ns;
}

Result<std::vector<std::string>> remove_own_files(const fs::path& path) {
  ASSIGN_OR_RETURN(const auto folder, ListedFolder::open(path));
  return folder ? folder->remove(path) : std::vector<std::string>();
}

}  // namespace millrace::bench
