#include "replay/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "base/bytes.h"
#include "base/io/directory.h"
#include "base/text/text.h"
#include "replay/paths.h"

namespace millrace::replay {
namespace {

constexpr mode_t kFileMode = 0600;
constexpr mode_t kDirectoryMode = 0700;
constexpr unsigned kLookMask = STATX_TYPE | STATX_MODE | STATX_INO | STATX_NLINK | STATX_BTIME;
constexpr std::string_view kMarkText =
    "`millrace replay` made this folder, and may create files in it. It changes and removes only "
    "what it has created in the same run.\n";

// Flags of a recorded open that are repeated. Not O_NOATIME, which only the owner may use.
constexpr int kReadFlags = O_DIRECT | O_SYNC | O_DSYNC | O_DIRECTORY | O_PATH;
constexpr int kWriteFlags = O_DIRECT | O_SYNC | O_DSYNC | O_APPEND | O_DIRECTORY;
// A pipe does not hang, a terminal is not taken over, a link is an error.
constexpr int kCarefulFlags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;

bool is_temporary(uint32_t flags) { return (flags & O_TMPFILE) == O_TMPFILE; }
bool only_reads(uint32_t flags) {
  if ((flags & O_PATH) != 0) return true;
  return (flags & (O_ACCMODE | O_CREAT | O_TRUNC)) == O_RDONLY && !is_temporary(flags);
}
// O_ACCMODE itself is a third kind of access, for devices only.
int access_of(uint32_t flags) {
  const auto access = static_cast<int>(flags & O_ACCMODE);
  return access == O_ACCMODE ? O_RDWR : access;
}

Outcome failed(int error) {
  const uint64_t now = now_ns();
  return {.result = -1, .error = error, .begin_ns = now, .end_ns = now};
}

// Opening a file with a lease on it (the store's service takes them) fails if it may not wait.
int open_at(int directory, const char* last, int flags) {
  const int fd = openat(directory, last, flags | kCarefulFlags, kFileMode);
  if (fd >= 0 || errno != EWOULDBLOCK) return fd;
  return openat(directory, last, (flags | kCarefulFlags) & ~O_NONBLOCK, kFileMode);
}

// Made by the kernel: to read such a file may wait, take messages from others, or do something.
bool is_kernel_made(int fd) {
  constexpr long kKernelMade[] = {PROC_SUPER_MAGIC,   SYSFS_MAGIC,          DEBUGFS_MAGIC,
                                  TRACEFS_MAGIC,      SECURITYFS_MAGIC,     SELINUX_MAGIC,
                                  CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC,  BPF_FS_MAGIC,
                                  DEVPTS_SUPER_MAGIC, PSTOREFS_MAGIC,       EFIVARFS_MAGIC,
                                  BINFMTFS_MAGIC,     USBDEVICE_SUPER_MAGIC};
  struct statfs status{};
  return fstatfs(fd, &status) == 0 && std::find(std::begin(kKernelMade), std::end(kKernelMade),
                                                status.f_type) != std::end(kKernelMade);
}

// The names in an open directory; nothing if it cannot be listed.
std::optional<std::vector<std::string>> names_in(int directory) {
  const int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* const stream = fd < 0 ? nullptr : fdopendir(fd);
  if (stream == nullptr) return std::nullopt;
  std::vector<std::string> names;
  while (const dirent* entry = readdir(stream)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  closedir(stream);
  return names;
}

size_t raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_max;
}

}  // namespace

// ---- the folder itself --------------------------------------------------------------------------

Result<std::unique_ptr<Folder>> Folder::open(const Options& options) {
  const std::string shown = printable(options.path);
  std::unique_ptr<Folder> folder(new Folder);
  struct stat status{};
  bool is_new = false;
  if (stat(options.path.c_str(), &status) != 0) {
    if (errno != ENOENT) return fail_os(errno, "cannot use this folder").within(shown);
    if (options.only_reads) return fail(Errc::kNotFound, "{}: no such folder", shown);
    RETURN_IF_ERROR(make_directories(options.path));
    is_new = true;
  } else if (!S_ISDIR(status.st_mode)) {
    return fail(Errc::kInvalidArgument, "{}: not a directory; give a folder for --onto", shown);
  }
  ASSIGN_OR_RETURN(File root, File::open(options.path, O_PATH | O_DIRECTORY));
  if (is_kernel_made(root.fd())) {
    return fail(Errc::kInvalidArgument,
                "{}: the files of this file system are not data; give another folder for --onto",
                shown);
  }
  const std::unique_ptr<char, decltype(&free)> real(realpath(options.path.c_str(), nullptr), &free);
  folder->path_ = real ? real.get() : options.path;
  folder->root_ = std::make_shared<const File>(std::move(root));
  folder->directories_max_ = std::clamp<size_t>(raise_descriptor_limit() / 8, 16, 4096);
  if (is_new) folder->created_root_ = folder->look(folder->root_->fd(), ".").identity;
  if (options.only_reads) return folder;
  ASSIGN_OR_RETURN(folder->may_create_, folder->is_empty_or_marked().within(shown));
  return folder;
}

Result<bool> Folder::is_empty_or_marked() {
  if (S_ISREG(look(root_->fd(), kFolderMark).mode)) {
    is_marked_ = true;
    return true;
  }
  const auto names = names_in(root_->fd());
  if (!names) return fail_os(errno, "cannot list the folder");
  return names->empty();
}

Status Folder::mark() {
  if (is_marked_) return {};
  File mark(
      openat(root_->fd(), kFolderMark, O_WRONLY | O_CREAT | O_EXCL | kCarefulFlags, kFileMode));
  if (!mark.is_open()) return fail_os(errno, "cannot create files").within(printable(path_));
  RETURN_IF_ERROR(mark.write_at(0, bytes_of(kMarkText)).within(printable(path_)));
  is_marked_ = made_mark_ = true;
  return {};
}

void Folder::remove_itself() {
  if (made_mark_) unlinkat(root_->fd(), kFolderMark, 0);
  if (created_root_ && look(AT_FDCWD, path_.c_str()).identity == *created_root_) {
    rmdir(path_.c_str());
  }
}

std::string Folder::place_of(std::string_view name) const {
  if (name.empty()) return path_;
  return (path_ == "/" ? "" : path_) + "/" + std::string(name);
}

// ---- finding names ------------------------------------------------------------------------------

// The deepest known directory on the way to `name`. Returns how many letters of the name it covers.
size_t Folder::find_known(std::string_view name, std::shared_ptr<const File>& directory) {
  const MutexLock lock(directories_mutex_);
  for (size_t end = name.size(); end > 0 && end != std::string_view::npos;
       end = name.rfind('/', end - 1)) {
    const auto found = directories_.find(name.substr(0, end));
    if (found == directories_.end()) continue;
    directory = found->second;
    return end;
  }
  directory = root_;
  return 0;
}

std::shared_ptr<const File> Folder::open_directory(std::string_view name, int& error) {
  std::shared_ptr<const File> directory;
  for (size_t end = find_known(name, directory); end < name.size();) {
    const size_t begin = end == 0 ? 0 : end + 1;
    end = std::min(name.find('/', begin), name.size());
    const std::string part(name.substr(begin, end - begin));
    const uint64_t device = look(directory->fd(), "").identity.device;
    const bool is_plain = !part.empty() && part != "." && part != "..";
    File next(is_plain ? openat(directory->fd(), part.c_str(),
                                O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
                       : -1);
    if (!next.is_open()) {
      error = is_plain ? errno : EINVAL;
      return nullptr;
    }
    const bool is_mounted = look(next.fd(), "").identity.device != device;
    if (is_mounted && is_kernel_made(next.fd())) {
      error = EPERM;
      return nullptr;
    }
    directory = std::make_shared<const File>(std::move(next));
    const MutexLock lock(directories_mutex_);
    if (directories_.size() >= directories_max_) directories_.clear();
    directories_.insert_or_assign(std::string(name.substr(0, end)), directory);
  }
  return directory;
}

Folder::Name Folder::find(std::string_view name) {
  Name found;
  const size_t slash = name.rfind('/');
  const bool is_below = slash != std::string_view::npos;
  found.last = name.empty() ? "." : name.substr(is_below ? slash + 1 : 0);
  if (found.last == "..") {
    found.error = EINVAL;
    return found;
  }
  found.directory = open_directory(is_below ? name.substr(0, slash) : "", found.error);
  return found;
}

void Folder::forget_directories(std::string_view name) {
  const MutexLock lock(directories_mutex_);
  for (auto at = directories_.lower_bound(name);
       at != directories_.end() && at->first.starts_with(name);) {
    at = is_below(at->first, name) ? directories_.erase(at) : std::next(at);
  }
}

// ---- what this replay created -------------------------------------------------------------------

Folder::Entry Folder::look(int directory, const char* last) const {
  const bool is_itself = *last == '\0';
  struct statx status{};
  const int flags = is_itself ? AT_EMPTY_PATH : AT_SYMLINK_NOFOLLOW;
  if (statx(directory, last, flags, kLookMask, &status) != 0) {
    const bool is_absent = errno == ENOENT || errno == ENOTDIR || errno == ENAMETOOLONG;
    return {.origin = is_absent ? Origin::kAbsent : Origin::kForeign};
  }
  Entry entry{.origin = Origin::kForeign,
              .identity = {.device = makedev(status.stx_dev_major, status.stx_dev_minor),
                           .inode = status.stx_ino,
                           .born_s = status.stx_btime.tv_sec,
                           .born_ns = status.stx_btime.tv_nsec},
              .mode = status.stx_mode,
              .link_count = status.stx_nlink};
  const MutexLock lock(created_mutex_);
  if (created_.contains(entry.identity)) entry.origin = Origin::kCreated;
  return entry;
}

// Another thread may have created it just now, and not have noted it yet.
Folder::Entry Folder::look_patiently(std::string_view text, const Name& name) {
  while (true) {
    const Entry entry = look(name.fd(), name.last.c_str());
    if (entry.origin != Origin::kForeign) return entry;
    bool is_being_created = false;
    {
      const MutexLock lock(created_mutex_);
      is_being_created = being_created_.contains(text);
    }
    if (!is_being_created) return look(name.fd(), name.last.c_str());
    std::this_thread::yield();
  }
}

// Makes a call that creates a name, and notes what it has created: look(its result).
template <typename Call, typename Look>
Outcome Folder::creating(std::string_view text, Call call, Look look) {
  decltype(being_created_)::iterator here;
  {
    const MutexLock lock(created_mutex_);
    here = being_created_.emplace(text);
  }
  const Outcome outcome = timed(call);
  if (outcome.result >= 0) note_created(look(static_cast<int>(outcome.result)));
  const MutexLock lock(created_mutex_);
  being_created_.erase(here);
  return outcome;
}

void Folder::note_created(const Entry& entry) {
  const MutexLock lock(created_mutex_);
  if (entry.origin != Origin::kAbsent) created_.insert(entry.identity);
}

// Called before a name is removed: if it is the last one, the inode may soon be somebody else's.
void Folder::forget(const Entry& entry) {
  if (S_ISREG(entry.mode) && entry.link_count > 1) return;
  const MutexLock lock(created_mutex_);
  created_.erase(entry.identity);
}

// ---- opening ------------------------------------------------------------------------------------

Outcome Folder::open_file(std::string_view text, uint32_t flags) {
  const uint64_t begin = now_ns();
  const Name name = find(text);
  if (name.error != 0) {
    return {.result = -1, .error = name.error, .begin_ns = begin, .end_ns = now_ns()};
  }
  if (only_reads(flags)) return open_to_read(name, flags);
  if (is_temporary(flags)) return open_temporary(name, flags);
  const Entry entry = look_patiently(text, name);
  const bool creates = (flags & O_CREAT) != 0;
  if (entry.origin == Origin::kAbsent) {
    return creates ? open_to_create(text, name, flags) : failed(ENOENT);
  }
  if (creates && (flags & O_EXCL) != 0) return failed(EEXIST);
  if (entry.is_created() && S_ISREG(entry.mode)) return open_to_change(name, flags);
  return (flags & O_TRUNC) != 0 ? failed(EPERM) : open_to_read(name, flags);
}

Outcome Folder::open_to_read(const Name& name, uint32_t flags) const {
  Outcome outcome = timed([&] {
    return open_at(name.fd(), name.last.c_str(), (static_cast<int>(flags) & kReadFlags) | O_RDONLY);
  });
  if (outcome.result < 0) return outcome;
  const int fd = static_cast<int>(outcome.result);
  const uint32_t mode = look(fd, "").mode;
  if (S_ISREG(mode) || S_ISDIR(mode)) return outcome;
  close(fd);
  outcome.result = -1;
  outcome.error = EPERM;
  return outcome;
}

Outcome Folder::open_temporary(const Name& name, uint32_t flags) const {
  if (!is_marked_) return failed(EPERM);
  const int how = access_of(flags) | (static_cast<int>(flags) & kWriteFlags) | O_TMPFILE;
  return timed([&] { return open_at(name.fd(), name.last.c_str(), how); });
}

Outcome Folder::open_to_create(std::string_view text, const Name& name, uint32_t flags) {
  if (!is_marked_) return failed(EPERM);
  const int how = access_of(flags) | (static_cast<int>(flags) & kWriteFlags) | O_CREAT | O_EXCL;
  const Outcome outcome = creating(
      text, [&] { return open_at(name.fd(), name.last.c_str(), how); },
      [&](int fd) { return look(fd, ""); });
  // Another thread was faster.
  if (outcome.error == EEXIST && (flags & O_EXCL) == 0 && look_patiently(text, name).is_created()) {
    return open_to_change(name, flags);
  }
  return outcome;
}

// Truncated only when the open file is known to be the one that this replay created.
Outcome Folder::open_to_change(const Name& name, uint32_t flags) const {
  const int how = access_of(flags) | (static_cast<int>(flags) & kWriteFlags);
  return timed([&]() -> int64_t {
    const int fd = open_at(name.fd(), name.last.c_str(), how);
    if (fd < 0) return fd;
    const bool is_ours = look(fd, "").is_created();
    if (is_ours && ((flags & O_TRUNC) == 0 || ftruncate(fd, 0) == 0)) return fd;
    const int error = is_ours ? errno : EPERM;
    close(fd);
    errno = error;
    return -1;
  });
}

// ---- changing names -----------------------------------------------------------------------------

Outcome Folder::truncate(std::string_view text, uint64_t size_bytes) {
  const Name name = find(text);
  if (name.error != 0) return failed(name.error);
  const Entry entry = look_patiently(text, name);
  if (entry.origin == Origin::kAbsent) return failed(ENOENT);
  if (!entry.is_created() || !S_ISREG(entry.mode)) return failed(EPERM);
  return timed([&]() -> int64_t {
    const int fd = open_at(name.fd(), name.last.c_str(), O_WRONLY);
    if (fd < 0) return fd;
    const File file(fd);
    if (look(fd, "").is_created()) return ftruncate(fd, static_cast<off_t>(size_bytes));
    errno = EPERM;
    return -1;
  });
}

Outcome Folder::make_directory(std::string_view text) {
  const Name name = find(text);
  if (name.error != 0) return failed(name.error);
  if (!is_marked_) return failed(EPERM);
  return creating(
      text, [&] { return mkdirat(name.fd(), name.last.c_str(), kDirectoryMode); },
      [&](int) { return look(name.fd(), name.last.c_str()); });
}

Outcome Folder::remove(std::string_view text, bool is_directory) {
  const Name name = find(text);
  if (name.error != 0) return failed(name.error);
  const Entry entry = look_patiently(text, name);
  if (entry.origin == Origin::kAbsent) return failed(ENOENT);
  if (!entry.is_created()) return failed(EPERM);
  forget(entry);
  const Outcome outcome = timed(
      [&] { return unlinkat(name.fd(), name.last.c_str(), is_directory ? AT_REMOVEDIR : 0); });
  if (outcome.result != 0) note_created(entry);
  if (is_directory) forget_directories(text);
  return outcome;
}

Outcome Folder::rename(std::string_view from_text, std::string_view to_text) {
  const Name from = find(from_text);
  const Name to = find(to_text);
  if (from.error != 0 || to.error != 0) return failed(from.error != 0 ? from.error : to.error);
  const Entry moved = look_patiently(from_text, from);
  const Entry replaced = look_patiently(to_text, to);
  if (moved.origin == Origin::kAbsent) return failed(ENOENT);
  if (!moved.is_created() || replaced.origin == Origin::kForeign) return failed(EPERM);
  const bool replaces = replaced.is_created() && replaced.identity != moved.identity;
  if (replaces) forget(replaced);
  const Outcome outcome =
      timed([&] { return renameat(from.fd(), from.last.c_str(), to.fd(), to.last.c_str()); });
  if (outcome.result != 0 && replaces) note_created(replaced);
  if (S_ISDIR(moved.mode)) {
    forget_directories(from_text);
    forget_directories(to_text);
  }
  return outcome;
}

Outcome Folder::link(std::string_view from_text, std::string_view to_text) {
  const Name from = find(from_text);
  const Name to = find(to_text);
  if (from.error != 0 || to.error != 0) return failed(from.error != 0 ? from.error : to.error);
  const Entry entry = look_patiently(from_text, from);
  if (entry.origin == Origin::kAbsent) return failed(ENOENT);
  if (!entry.is_created()) return failed(EPERM);
  return timed([&] { return linkat(from.fd(), from.last.c_str(), to.fd(), to.last.c_str(), 0); });
}

void Folder::remove_created(std::string_view text, std::vector<std::string>& left) {
  const Name name = find(text);
  if (name.error != 0 || text.empty()) return;
  forget_directories(text);
  remove_created_in(name.fd(), name.last, std::string(text), left);
}

// `text` is the whole name of `last`. Returns whether it is gone.
bool Folder::remove_created_in(int directory, const std::string& last, const std::string& text,
                               std::vector<std::string>& left) {
  const Entry entry = look(directory, last.c_str());
  if (entry.origin == Origin::kAbsent) return true;
  bool is_removable = entry.is_created();
  if (is_removable && S_ISDIR(entry.mode)) {
    const File opened(open_at(directory, last.c_str(), O_RDONLY | O_DIRECTORY));
    const bool is_same = opened.is_open() && look(opened.fd(), "").identity == entry.identity;
    const auto names = is_same ? names_in(opened.fd()) : std::nullopt;
    if (!names) return false;
    for (const std::string& name : *names) {
      if (!remove_created_in(opened.fd(), name, text + "/" + name, left)) is_removable = false;
    }
    if (!is_removable) return false;
  }
  const int flags = S_ISDIR(entry.mode) ? AT_REMOVEDIR : 0;
  if (is_removable) forget(entry);
  if (is_removable && unlinkat(directory, last.c_str(), flags) == 0) return true;
  left.push_back(text);
  return false;
}

}  // namespace millrace::replay
