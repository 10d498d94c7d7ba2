#include "io/listing.h"

#include <dirent.h>
#include <sys/stat.h>

#include <cerrno>
#include <memory>

namespace millrace::io {
namespace {

struct CloseDirectory {
  void operator()(DIR* directory) const { closedir(directory); }
};
using Directory = std::unique_ptr<DIR, CloseDirectory>;

// Calls stat() only for links, and on file systems that do not report the type of an entry.
Result<ListedKind> kind_of(const dirent& entry, const std::string& directory) {
  if (entry.d_type == DT_REG) return ListedKind::kFile;
  if (entry.d_type == DT_DIR) return ListedKind::kDirectory;
  if (entry.d_type != DT_LNK && entry.d_type != DT_UNKNOWN) return ListedKind::kOther;
  struct stat info{};
  std::string path = directory;
  if (!path.empty() && path.back() != '/') path += '/';
  path += entry.d_name;
  if (stat(path.c_str(), &info) != 0) {
    const int error = errno;
    return fail_os(error, "cannot follow the link").within(path);
  }
  if (S_ISREG(info.st_mode)) return ListedKind::kFile;
  return S_ISDIR(info.st_mode) ? ListedKind::kDirectory : ListedKind::kOther;
}

class SystemListing final : public Listing {
 public:
  Result<DirectoryIdentity> identity(const std::string& directory) const override {
    struct stat info{};
    if (stat(directory.c_str(), &info) != 0) {
      const int error = errno;
      return fail_os(error, "cannot open the directory").within(directory);
    }
    if (!S_ISDIR(info.st_mode)) {
      return fail_os(ENOTDIR, "cannot open the directory").within(directory);
    }
    return DirectoryIdentity{.device = info.st_dev, .inode = info.st_ino};
  }

  Status visit(const std::string& path, const Visit& each) const override {
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
      RETURN_IF_ERROR(each(name, kind_of(*entry, path)));
    }
  }
};

}  // namespace

const Listing& system_listing() {
  static const SystemListing listing;
  return listing;
}

}  // namespace millrace::io
