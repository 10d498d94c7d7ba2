#include "format/folder.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <memory>

namespace millrace::format {
namespace {

struct CloseDirectory {
  void operator()(DIR* directory) const { closedir(directory); }
};
using Directory = std::unique_ptr<DIR, CloseDirectory>;

enum class Kind { kFile, kDirectory, kOther };

struct Identity {
  dev_t device;
  ino_t inode;
  bool operator==(const Identity&) const = default;
};

std::string child(const std::string& directory, std::string_view name) {
  std::string path = directory;
  if (!path.empty() && path.back() != '/') path += '/';
  path += name;
  return path;
}

// Calls stat() only for links, and on file systems that do not report the type of an entry.
Result<Kind> kind_of(const dirent& entry, const std::string& directory) {
  if (entry.d_type == DT_REG) return Kind::kFile;
  if (entry.d_type == DT_DIR) return Kind::kDirectory;
  if (entry.d_type != DT_LNK && entry.d_type != DT_UNKNOWN) return Kind::kOther;
  struct stat info{};
  const std::string path = child(directory, entry.d_name);
  if (stat(path.c_str(), &info) != 0) {
    const int error = errno;
    return fail_os(error, "cannot follow the link").within(path);
  }
  if (S_ISREG(info.st_mode)) return Kind::kFile;
  return S_ISDIR(info.st_mode) ? Kind::kDirectory : Kind::kOther;
}

template <typename Visit>
Status for_each_entry(const std::string& path, Visit&& visit) {
  const Directory directory(opendir(path.c_str()));
  if (!directory) {
    const int error = errno;
    return fail_os(error, "cannot open the directory").within(path);
  }
  while (true) {
    errno = 0;
    const dirent* entry = readdir(directory.get());
    if (entry == nullptr) {
      const int error = errno;
      if (error != 0) return fail_os(error, "cannot read the directory").within(path);
      return {};
    }
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    RETURN_IF_ERROR(visit(*entry));
  }
}

bool ends_in_one_of(std::string_view name, std::span<const std::string> extensions) {
  const auto same_letter = [](char a, char b) {
    const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
    return lower(a) == lower(b);
  };
  return extensions.empty() ||
         std::any_of(extensions.begin(), extensions.end(), [&](const std::string& extension) {
           return name.size() >= extension.size() &&
                  std::equal(extension.begin(), extension.end(),
                             name.end() - static_cast<ptrdiff_t>(extension.size()), same_letter);
         });
}

class TreeList {
 public:
  explicit TreeList(std::span<const std::string> extensions) : extensions_(extensions) {}

  Status add(const std::string& path) {
    ASSIGN_OR_RETURN(const Identity identity, identity_of(path));
    if (std::find(above_.begin(), above_.end(), identity) != above_.end()) {
      return fail(Errc::kInvalidArgument,
                  "{}: this link leads back to a directory that contains it; remove it", path);
    }
    DirectoryFiles files{.directory = path, .text = {}, .name_begins = {}};
    std::vector<std::string> directories;
    RETURN_IF_ERROR(for_each_entry(
        path, [&](const dirent& entry) { return add_entry(path, entry, files, directories); }));
    if (!files.name_begins.empty()) found_.push_back(std::move(files));
    above_.push_back(identity);
    for (const std::string& directory : directories) RETURN_IF_ERROR(add(child(path, directory)));
    above_.pop_back();
    return {};
  }

  std::vector<DirectoryFiles> finish() && {
    std::sort(found_.begin(), found_.end(), [](const DirectoryFiles& a, const DirectoryFiles& b) {
      return a.directory < b.directory;
    });
    for (DirectoryFiles& files : found_) {
      const char* text = files.text.c_str();
      std::sort(files.name_begins.begin(), files.name_begins.end(), [&](uint32_t a, uint32_t b) {
        return std::string_view(text + a) < std::string_view(text + b);
      });
    }
    return std::move(found_);
  }

 private:
  static Result<Identity> identity_of(const std::string& path) {
    struct stat info{};
    if (stat(path.c_str(), &info) != 0) {
      const int error = errno;
      return fail_os(error, "cannot open the directory").within(path);
    }
    return Identity{.device = info.st_dev, .inode = info.st_ino};
  }

  Status add_entry(const std::string& path, const dirent& entry, DirectoryFiles& files,
                   std::vector<std::string>& directories) {
    const std::string_view name = entry.d_name;
    // Ignores broken links with other extensions: they must not fail the whole dataset.
    const bool may_be_file = ends_in_one_of(name, extensions_);
    const auto kind = kind_of(entry, path);
    if (!kind.ok()) return may_be_file ? Status(kind.error()) : Status();
    if (*kind == Kind::kDirectory) directories.emplace_back(name);
    if (*kind != Kind::kFile || !may_be_file) return {};
    if (files.text.size() > std::numeric_limits<uint32_t>::max() - sizeof(entry.d_name)) {
      return fail(Errc::kUnsupported, "{}: too many files in one directory; use subdirectories",
                  path);
    }
    files.name_begins.push_back(static_cast<uint32_t>(files.text.size()));
    files.text += name;
    files.text += '\0';
    return {};
  }

  std::span<const std::string> extensions_;
  std::vector<DirectoryFiles> found_;
  std::vector<Identity> above_;
};

}  // namespace

Result<std::vector<DirectoryFiles>> list_tree(const std::string& root,
                                              std::span<const std::string> extensions) {
  TreeList list(extensions);
  RETURN_IF_ERROR(list.add(root));
  return std::move(list).finish();
}

Result<std::vector<std::string>> list_directories(const std::string& root) {
  std::vector<std::string> names;
  RETURN_IF_ERROR(for_each_entry(root, [&](const dirent& entry) -> Status {
    const auto kind = kind_of(entry, root);
    if (kind.ok() && *kind == Kind::kDirectory) names.emplace_back(entry.d_name);
    return {};
  }));
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace millrace::format
