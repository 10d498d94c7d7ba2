#include "base/walk.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <memory>
#include <string_view>
#include <vector>

namespace millrace {
namespace {

using Directory = std::unique_ptr<DIR, decltype([](DIR* open) { closedir(open); })>;

EntryKind kind_of_mode(mode_t mode) {
  if (S_ISREG(mode)) return EntryKind::kFile;
  if (S_ISDIR(mode)) return EntryKind::kDirectory;
  if (S_ISLNK(mode)) return EntryKind::kSymlink;
  return EntryKind::kOther;
}

EntryKind kind_of(const dirent& entry, DIR* directory) {
  switch (entry.d_type) {
    case DT_REG:
      return EntryKind::kFile;
    case DT_DIR:
      return EntryKind::kDirectory;
    case DT_LNK:
      return EntryKind::kSymlink;
    case DT_UNKNOWN: {  // some file systems never tell
      struct stat info{};
      if (fstatat(dirfd(directory), entry.d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) {
        return EntryKind::kOther;
      }
      return kind_of_mode(info.st_mode);
    }
    default:
      return EntryKind::kOther;
  }
}

class Walker {
 public:
  explicit Walker(const WalkVisitor& visitor) : visitor_(visitor) {}

  Result<WalkCounts> run(const std::filesystem::path& root) {
    RETURN_IF_ERROR(visit(root));
    while (!pending_.empty() && !stopped_) {
      const std::filesystem::path directory = std::move(pending_.back());
      pending_.pop_back();
      const Status status = visit(directory);
      if (status.ok()) continue;
      ++counts_.errors;
      visitor_.error(status.error());
    }
    return counts_;
  }

 private:
  Status visit(const std::filesystem::path& path) {
    const Directory directory(opendir(path.c_str()));
    if (directory == nullptr) return fail_os(errno, "cannot list").within(path.native());
    while (!stopped_) {
      errno = 0;
      const dirent* entry = readdir(directory.get());
      if (entry == nullptr) break;
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") tell(path / name, kind_of(*entry, directory.get()));
    }
    if (!stopped_ && errno != 0) return fail_os(errno, "cannot list").within(path.native());
    return {};
  }

  void tell(std::filesystem::path path, EntryKind kind) {
    ++counts_.entries;
    const WalkNext next = visitor_.entry({path, kind});
    stopped_ = next == WalkNext::kStop;
    if (kind == EntryKind::kDirectory && next == WalkNext::kContinue) {
      pending_.push_back(std::move(path));
    }
  }

  const WalkVisitor& visitor_;
  std::vector<std::filesystem::path> pending_;
  WalkCounts counts_;
  bool stopped_ = false;
};

}  // namespace

Result<WalkCounts> walk(const std::filesystem::path& root, const WalkVisitor& visitor) {
  return Walker(visitor).run(root);
}

}  // namespace millrace
