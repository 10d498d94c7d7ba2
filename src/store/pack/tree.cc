#include "store/pack/tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <memory>
#include <utility>

#include "base/hash/crc32c.h"
#include "base/text/text.h"
#include "store/pack/open_below.h"
#include "wire/catalogue_view.h"

namespace millrace::store {
namespace {

using wire::CatalogueEntry;
using wire::EntryKind;

constexpr size_t kNameBytesMax = 255;
constexpr size_t kTargetBytesMax = 4095;  // PATH_MAX
constexpr uint64_t kProgressEvery = 4096;

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

Result<std::vector<std::string>> sorted_names(const File& directory) {
  const int fd = ::fcntl(directory.fd(), F_DUPFD_CLOEXEC, 0);
  if (fd < 0) return fail_os(errno, "cannot list the directory");
  const std::unique_ptr<DIR, CloseDirectory> stream(::fdopendir(fd));
  if (!stream) {
    const int os_error = errno;
    ::close(fd);
    return fail_os(os_error, "cannot list the directory");
  }
  std::vector<std::string> names;
  while (true) {
    errno = 0;
    const dirent* item = ::readdir(stream.get());
    if (item == nullptr) break;
    const std::string_view name = item->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  if (errno != 0) return fail_os(errno, "cannot list the directory");
  std::sort(names.begin(), names.end());
  return names;
}

// The name or the target of a new entry: where it begins in the names.
uint64_t add_text(Tree& tree, std::string_view text) {
  tree.names += text;
  return tree.names.size() - text.size();
}

void set_name(Tree& tree, uint32_t parent, std::string_view name, CatalogueEntry& entry) {
  entry.parent = parent;
  entry.name_offset = add_text(tree, name);
  entry.name_bytes = static_cast<uint8_t>(name.size());
}

void set_target(Tree& tree, std::string_view target, CatalogueEntry& entry) {
  entry.offset_bytes = add_text(tree, target);
  entry.size_bytes = target.size();
  entry.crc32c = crc32c(bytes_of(target));
}

class Walk {
 public:
  Walk(const std::string& root, std::vector<std::string>& skipped,
       const std::function<void(uint64_t)>& on_progress)
      : root_(root), skipped_(skipped), on_progress_(on_progress) {}

  Result<Tree> run() {
    ASSIGN_OR_RETURN(top_, open_directory(root_));
    struct stat status{};
    if (::fstat(top_.fd(), &status) != 0) {
      return fail_os(errno, "cannot read its status").within(printable(root_));
    }
    tree_.entries.push_back(entry_of(status, EntryKind::kDirectory));
    // The entries are the queue: directories that are found are visited later.
    for (size_t i = 0; i < tree_.entries.size(); ++i) {
      if (tree_.entries[i].kind != EntryKind::kDirectory) continue;
      const std::string path = tree_.path(static_cast<uint32_t>(i));
      RETURN_IF_ERROR(visit(static_cast<uint32_t>(i), path).within(shown(path)));
    }
    if (on_progress_) on_progress_(unreported_);
    return std::move(tree_);
  }

 private:
  std::string shown(const std::string& path) const {
    return printable(path.empty() ? root_ : fmt::format("{}/{}", root_, path));
  }

  static CatalogueEntry entry_of(const struct stat& status, EntryKind kind) {
    CatalogueEntry entry{};
    entry.mtime_ns = ns_of(status.st_mtim);
    entry.mode = status.st_mode & 07777;
    entry.kind = kind;
    return entry;
  }

  Status visit(uint32_t index, const std::string& path) {
    ASSIGN_OR_RETURN(const File directory, open_below(top_, path, O_RDONLY | O_DIRECTORY));
    ASSIGN_OR_RETURN(const std::vector<std::string> names, sorted_names(directory));
    tree_.entries[index].offset_bytes = tree_.entries.size();
    for (const std::string& name : names) {
      RETURN_IF_ERROR(add(directory, index, path, name).within(printable(name)));
    }
    tree_.entries[index].size_bytes = tree_.entries.size() - tree_.entries[index].offset_bytes;
    return {};
  }

  Status add(const File& directory, uint32_t parent, const std::string& path,
             const std::string& name) {
    struct stat status{};
    if (::fstatat(directory.fd(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
      return fail_os(errno, "cannot read its status");
    }
    EntryKind kind = EntryKind::kFile;
    if (S_ISDIR(status.st_mode)) {
      kind = EntryKind::kDirectory;
    } else if (S_ISLNK(status.st_mode)) {
      kind = EntryKind::kLink;
    } else if (!S_ISREG(status.st_mode)) {
      skipped_.push_back(path.empty() ? name : fmt::format("{}/{}", path, name));
      return {};
    }
    if (tree_.entries.size() >= wire::kEntryMax) {
      return fail(Errc::kUnsupported, "a pack has at most {} files; pack parts of the directory",
                  wire::kEntryMax);
    }
    CatalogueEntry entry = entry_of(status, kind);
    set_name(tree_, parent, name, entry);
    if (kind == EntryKind::kFile) add_file(status, entry);
    if (kind == EntryKind::kLink) RETURN_IF_ERROR(add_link(directory, name, entry));
    tree_.entries.push_back(entry);
    if (on_progress_ && ++unreported_ == kProgressEvery) {
      on_progress_(std::exchange(unreported_, 0));
    }
    return {};
  }

  void add_file(const struct stat& status, CatalogueEntry& entry) {
    entry.size_bytes = static_cast<uint64_t>(status.st_size);
    if (status.st_nlink <= 1) return;
    const auto index = static_cast<uint32_t>(tree_.entries.size());
    const auto [first, is_new] = first_names_.try_emplace({status.st_dev, status.st_ino}, index);
    if (!is_new) tree_.same_file.push_back({index, first->second});
  }

  Status add_link(const File& directory, const std::string& name, CatalogueEntry& entry) {
    char target[kTargetBytesMax + 1];
    const ssize_t length = ::readlinkat(directory.fd(), name.c_str(), target, sizeof(target));
    if (length < 0) return fail_os(errno, "cannot read the link");
    set_target(tree_, {target, static_cast<size_t>(length)}, entry);
    return {};
  }

  const std::string root_;
  std::vector<std::string>& skipped_;
  const std::function<void(uint64_t)>& on_progress_;
  File top_;
  Tree tree_;
  std::map<std::pair<dev_t, ino_t>, uint32_t> first_names_;  // of files with several names
  uint64_t unreported_ = 0;
};

// Compares paths component by component, so that what is below a directory follows it at once.
bool comes_before(std::string_view a, std::string_view b) {
  const size_t common = std::min(a.size(), b.size());
  for (size_t i = 0; i < common; ++i) {
    if (a[i] == b[i]) continue;
    if (a[i] == '/') return true;
    if (b[i] == '/') return false;
    return static_cast<unsigned char>(a[i]) < static_cast<unsigned char>(b[i]);
  }
  return a.size() < b.size();
}

// The members of a list that are below one path are consecutive.
struct MemberRange {
  size_t begin = 0;
  size_t end = 0;
  size_t path_bytes = 0;  // of their common directory
};

class Assembly {
 public:
  explicit Assembly(std::vector<Member> members) : members_(std::move(members)) {}

  Result<Tree> run() {
    for (const Member& member : members_) {
      RETURN_IF_ERROR(check_path(member.path).within(printable(member.path)));
      RETURN_IF_ERROR(check_target(member).within(printable(member.path)));
    }
    std::stable_sort(members_.begin(), members_.end(),
                     [](const Member& a, const Member& b) { return comes_before(a.path, b.path); });
    RETURN_IF_ERROR(remove_earlier());
    CatalogueEntry root = missing_directory();
    size_t begin = 0;
    if (!members_.empty() && members_.front().path.empty()) {
      root = members_.front().entry;
      if (root.kind != EntryKind::kDirectory) {
        return fail(Errc::kCorrupt, "the member without a name is not a directory");
      }
      ++begin;
    }
    tree_.entries.push_back(root);
    ranges_.push_back({begin, members_.size(), 0});
    for (size_t i = 0; i < tree_.entries.size(); ++i) {
      if (tree_.entries[i].kind == EntryKind::kDirectory) RETURN_IF_ERROR(add_children(i));
    }
    return std::move(tree_);
  }

 private:
  static Status check_target(const Member& member) {
    if (member.entry.kind != EntryKind::kLink) return {};
    const std::string& target = member.target;
    const bool has_zero = target.find('\0') != std::string::npos;
    if (!target.empty() && target.size() <= kTargetBytesMax && !has_zero) return {};
    return fail(Errc::kCorrupt, "the target of the link has {} bytes, or a zero byte",
                target.size());
  }

  static CatalogueEntry missing_directory() {
    CatalogueEntry entry{};
    entry.kind = EntryKind::kDirectory;
    entry.mode = 0755;
    return entry;
  }

  // Of members with one path, keeps the last.
  Status remove_earlier() {
    std::vector<Member> kept;
    kept.reserve(members_.size());
    for (Member& member : members_) {
      if (!kept.empty() && kept.back().path == member.path) {
        const CatalogueEntry& before = kept.back().entry;
        const bool both_directories =
            before.kind == EntryKind::kDirectory && member.entry.kind == EntryKind::kDirectory;
        if (!both_directories && before.partition != member.entry.partition) {
          return fail(Errc::kInvalidArgument,
                      "'{}' is in two partitions, {} and {}; give only one of them",
                      printable(member.path), before.partition, member.entry.partition);
        }
        kept.pop_back();
      }
      kept.push_back(std::move(member));
    }
    members_ = std::move(kept);
    return {};
  }

  Status add_children(size_t index) {
    const MemberRange range = ranges_[index];
    tree_.entries[index].offset_bytes = tree_.entries.size();
    for (size_t i = range.begin; i < range.end;) {
      const std::string& path = members_[i].path;
      const size_t name_end = std::min(path.find('/', range.path_bytes), path.size());
      const std::string_view prefix(path.data(), name_end);
      size_t end = i + 1;
      while (end < range.end && is_below(members_[end].path, prefix)) ++end;
      const bool is_listed = path.size() == name_end;
      CatalogueEntry entry = is_listed ? members_[i].entry : missing_directory();
      if (entry.kind != EntryKind::kDirectory && end > i + 1) {
        return fail(Errc::kCorrupt, "'{}' is not a directory, but '{}' is below it",
                    printable(path), printable(members_[i + 1].path));
      }
      const std::string_view name = prefix.substr(range.path_bytes);
      set_name(tree_, static_cast<uint32_t>(index), name, entry);
      if (entry.kind == EntryKind::kLink) set_target(tree_, members_[i].target, entry);
      tree_.entries.push_back(entry);
      ranges_.push_back({is_listed ? i + 1 : i, end, name_end + 1});
      i = end;
    }
    tree_.entries[index].size_bytes = tree_.entries.size() - tree_.entries[index].offset_bytes;
    return {};
  }

  static bool is_below(std::string_view path, std::string_view directory) {
    return path.size() > directory.size() && path[directory.size()] == '/' &&
           path.starts_with(directory);
  }

  std::vector<Member> members_;
  std::vector<MemberRange> ranges_;  // for each entry: what is below it
  Tree tree_;
};

}  // namespace

std::string_view Tree::name(uint32_t index) const {
  return std::string_view(names).substr(entries[index].name_offset, entries[index].name_bytes);
}

std::string_view Tree::link_target(uint32_t index) const {
  const CatalogueEntry& entry = entries[index];
  if (entry.kind != EntryKind::kLink) return {};
  return std::string_view(names).substr(entry.offset_bytes, entry.size_bytes);
}

std::string Tree::path(uint32_t index) const {
  size_t length = 0;
  for (uint32_t at = index; at != wire::kRootEntry; at = entries[at].parent) {
    length += entries[at].name_bytes + size_t{1};
  }
  if (length == 0) return {};
  std::string path(length - 1, '/');
  size_t end = path.size();
  for (uint32_t at = index; at != wire::kRootEntry; at = entries[at].parent) {
    const std::string_view own = name(at);
    path.replace(end - own.size(), own.size(), own);
    end -= own.size();
    if (end != 0) --end;
  }
  return path;
}

Result<Tree> walk_directory(const std::string& root, std::vector<std::string>& skipped,
                            const std::function<void(uint64_t)>& on_progress) {
  return Walk(root, skipped, on_progress).run();
}

Result<Tree> tree_of(std::vector<Member> members) { return Assembly(std::move(members)).run(); }

Status check_name(std::string_view name) {
  if (name.empty()) return fail(Errc::kCorrupt, "a component of the path is empty");
  if (name == "." || name == "..") {
    return fail(Errc::kCorrupt, "'{}' is not allowed as a component of the path", name);
  }
  if (name.size() > kNameBytesMax) {
    return fail(Errc::kCorrupt, "a component of the path has {} bytes; at most {} are allowed",
                name.size(), kNameBytesMax);
  }
  if (name.find('/') != std::string_view::npos || name.find('\0') != std::string_view::npos) {
    return fail(Errc::kCorrupt, "a component of the path contains a slash or a zero byte");
  }
  return {};
}

Status check_path(std::string_view path) {
  if (path.empty()) return {};
  if (path.front() == '/') return fail(Errc::kCorrupt, "the path is absolute");
  while (true) {
    const size_t slash = path.find('/');
    RETURN_IF_ERROR(check_name(path.substr(0, slash)));
    if (slash == std::string_view::npos) return {};
    path.remove_prefix(slash + 1);
  }
}

}  // namespace millrace::store
