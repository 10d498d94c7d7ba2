// Reading the attributes of files.
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "hook/syscall.h"
#include "store/preload/attributes.h"
#include "store/preload/fast.h"
#include "store/preload/hooks.h"
#include "store/preload/shown.h"
#include "store/preload/text.h"

namespace millrace::store {
namespace {

constexpr uint32_t kBlockBytes = 4096;  // st_blksize; with 1 MiB, Python reads 4 times slower
constexpr uint64_t kDirectoryBytes = 4096;
constexpr int64_t kNsPerSecond = 1'000'000'000;

// The subdirectories of a directory decide its number of links, from which programs conclude how
// many there are. Counted once; some results are kept as entry + 1 and count.
uint32_t subdirectory_count(uint32_t index) {
  static constinit std::atomic<uint64_t> kept[256] = {};
  std::atomic<uint64_t>& place = kept[index % 256];
  const uint64_t found = place.load(std::memory_order_relaxed);
  if (found >> 32 == uint64_t{index} + 1) return static_cast<uint32_t>(found);
  const wire::CatalogueView::Children children = client.catalogue.children(entry_at(index));
  uint32_t count = 0;
  for (uint32_t i = 0; i < children.count; ++i) count += is_directory(children.first + i) ? 1 : 0;
  place.store((uint64_t{index} + 1) << 32 | count, std::memory_order_relaxed);
  return count;
}

struct Attributes {
  uint32_t mode;
  uint32_t link_count;
  uint64_t size_bytes;
  uint64_t block_count;  // of 512 bytes
  int64_t seconds;
  int64_t nanoseconds;
};

struct timespec time_at(int64_t ns) {
  int64_t seconds = ns / kNsPerSecond;
  int64_t nanoseconds = ns % kNsPerSecond;
  if (nanoseconds < 0) {
    nanoseconds += kNsPerSecond;
    --seconds;
  }
  return {.tv_sec = seconds, .tv_nsec = nanoseconds};
}

Attributes attributes_of(uint32_t index) {
  const wire::CatalogueEntry entry = entry_at(index);
  Attributes found = {};
  found.mode = wire::stat_mode(entry);
  found.link_count = 1;
  found.size_bytes = entry.size_bytes;
  if (entry.kind == EntryKind::kDirectory) {
    found.size_bytes = kDirectoryBytes;
    found.link_count = 2 + subdirectory_count(index);
  }
  if (entry.kind != EntryKind::kLink) {
    found.block_count = (found.size_bytes + kBlockBytes - 1) / kBlockBytes * (kBlockBytes / 512);
  }
  const struct timespec time = time_at(entry.mtime_ns);
  found.seconds = time.tv_sec;
  found.nanoseconds = time.tv_nsec;
  return found;
}

int64_t time_ns(const struct timespec& time) { return time.tv_sec * kNsPerSecond + time.tv_nsec; }
int64_t time_ns(const struct statx_timestamp& time) {
  return time.tv_sec * kNsPerSecond + time.tv_nsec;
}

// After a successful fstat: shows the same as stat if the descriptor is one of the store.
int agreeing(int fd, int result, struct stat* status) {
  if (result != 0 || !active()) return result;
  const uint32_t entry = entry_of(fd, {.device = status->st_dev,
                                       .mode = status->st_mode,
                                       .size_bytes = static_cast<uint64_t>(status->st_size),
                                       .mtime_ns = time_ns(status->st_mtim)});
  if (entry != kNoEntry) fill_status(entry, status);
  return result;
}

int agreeing(int fd, int result, struct statx* status) {
  if (result != 0 || !active()) return result;
  const uint64_t device = makedev(status->stx_dev_major, status->stx_dev_minor);
  const uint32_t entry = entry_of(fd, {.device = device,
                                       .mode = status->stx_mode,
                                       .size_bytes = status->stx_size,
                                       .mtime_ns = time_ns(status->stx_mtime)});
  if (entry != kNoEntry) fill_status(entry, status);
  return result;
}

// fstat of a fast descriptor. False: it is not one.
template <typename Status>
bool stat_fast(int fd, Status* status, int* result) {
  FastFile file;
  const FastFiles::State state = fast_files.look(fd, file);
  if (state == FastFiles::State::kNone) return false;
  *result = -1;
  if (state == FastFiles::State::kParked) {
    errno = EBADF;
  } else if (is_bad(status)) {
    errno = EFAULT;
  } else {
    fill_status(file.entry, status);
    *result = 0;
  }
  return true;
}

Last last_of_stat(int flags) {
  return (flags & AT_SYMLINK_NOFOLLOW) != 0 ? Last::kKeepLink : Last::kLook;
}

void set_remote(const wire::RemoteName& name, struct stat* status) {
  const uint64_t pages = (name.size_bytes + kBlockBytes - 1) / kBlockBytes;
  status->st_mode = S_IFREG | (name.mode & 07777);
  status->st_size = static_cast<off_t>(name.size_bytes);
  status->st_blocks = static_cast<blkcnt_t>(pages * (kBlockBytes / 512));
  status->st_mtim = time_at(name.mtime_ns);
  status->st_atim = status->st_mtim;
  status->st_ctim = status->st_mtim;
}

void set_remote(const wire::RemoteName& name, struct statx* status) {
  struct stat plain;
  set_remote(name, &plain);
  status->stx_mode = static_cast<uint16_t>(plain.st_mode);
  status->stx_size = name.size_bytes;
  status->stx_blocks = static_cast<uint64_t>(plain.st_blocks);
  status->stx_mtime.tv_sec = plain.st_mtim.tv_sec;
  status->stx_mtime.tv_nsec = static_cast<uint32_t>(plain.st_mtim.tv_nsec);
  status->stx_atime = status->stx_mtime;
  status->stx_ctime = status->stx_mtime;
}

// The attributes of the file behind the real name `path`, which may stand for one of another node.
// look(path) is the real call. The inode is that of the copy, which is empty until it is fetched.
template <typename Status, typename Look>
int looking(const char* path, Status* status, Look look) {
  if (!may_be_shown(path)) return look(path);
  const hook::Scratch<ShownTarget> target;
  if (!target || read_shown(path, *target).empty()) return look(path);
  wire::RemoteName name;
  if (!wire::parse_remote_target(target->text, name)) return look(target->text);
  const hook::Scratch<RealPath> copy;
  if (!copy) return failure<int>(ENOMEM);
  Text(copy->text, sizeof(copy->text))
      .add(client.node)
      .add("/")
      .add(wire::kStoreFetchedDirectory)
      .add("/")
      .add(name.id);
  const int result = look(copy->text);
  if (result == 0) set_remote(name, status);
  return result;
}

// The path is empty: the call means the descriptor.
bool means_descriptor(const char* path, int flags) {
  return (flags & AT_EMPTY_PATH) != 0 && (path == nullptr || (!is_bad(path) && *path == '\0'));
}

template <typename Status, typename Outside>
int on_stat(int directory, const char* path, Status* status, int flags, Outside outside) {
  if (means_descriptor(path, flags)) {
    if (int result; stat_fast(directory, status, &result)) return result;
    const int result = outside(directory, path);
    if (directory != AT_FDCWD) return agreeing(directory, result, status);
    const uint32_t entry = active() ? working_directory_entry() : kNoEntry;
    if (result == 0 && entry != kNoEntry) fill_status(entry, status);
    return result;
  }
  return on_path(
      directory, path, last_of_stat(flags),
      [&](uint32_t entry) {
        if (is_bad(status)) return failure<int>(EFAULT);
        fill_status(entry, status);
        return 0;
      },
      [&](int base, const char* other) {
        if (is_bad(other) || is_bad(status)) return outside(base, other);
        return looking(other, status, [&](const char* real) { return outside(base, real); });
      });
}

// The files belong to the user who runs the job.
int check_access(uint32_t index, int mode) {
  const wire::CatalogueEntry entry = entry_at(index);
  const bool is_superuser = hook::sys_geteuid() == 0;
  // Names can be created in any directory.
  if ((mode & W_OK) != 0 && entry.kind != EntryKind::kDirectory) return failure<int>(EROFS);
  if ((mode & R_OK) != 0 && !is_superuser && (entry.mode & 0400) == 0) return failure<int>(EACCES);
  const uint32_t executable = is_superuser && entry.kind == EntryKind::kFile ? 0111 : 0100;
  const bool may_search = is_superuser && entry.kind == EntryKind::kDirectory;
  if ((mode & X_OK) != 0 && !may_search && (entry.mode & executable) == 0) {
    return failure<int>(EACCES);
  }
  return 0;
}

constinit Real<int(int, const char*, int, int)> real_faccessat{"faccessat"};

int accessing(int directory, const char* path, int mode, int flags) {
  return on_path(
      directory, path, last_of_stat(flags),
      [&](uint32_t entry) { return check_access(entry, mode); },
      [&](int base, const char* other) {
        if (is_bad(other)) return real_faccessat(base, other, mode, flags);
        struct stat unused;  // the copy has the right mode
        return looking(other, &unused,
                       [&](const char* real) { return real_faccessat(base, real, mode, flags); });
      });
}

// The file system of the store is that of the tree.
template <typename Body>
int on_file_system(const char* path, Body body) {
  return on_path(
      AT_FDCWD, path, Last::kFollow,
      [&](uint32_t) { return with_real_path(wire::kRootEntry, body); },
      [&](int, const char* other) { return body(other); });
}

// There are no extended attributes.
ssize_t no_attribute(uint32_t) { return failure<ssize_t>(ENODATA); }
ssize_t empty_list(uint32_t) { return 0; }

}  // namespace

void fill_status(uint32_t entry, struct stat* status) {
  const Attributes from = attributes_of(entry);
  memset(status, 0, sizeof(*status));
  status->st_dev = client.shown_device;
  status->st_ino = wire::inode_of(entry);
  status->st_mode = from.mode;
  status->st_nlink = from.link_count;
  status->st_uid = client.user;
  status->st_gid = client.group;
  status->st_size = static_cast<off_t>(from.size_bytes);
  status->st_blksize = kBlockBytes;
  status->st_blocks = static_cast<blkcnt_t>(from.block_count);
  status->st_mtim = {.tv_sec = from.seconds, .tv_nsec = from.nanoseconds};
  status->st_atim = status->st_mtim;
  status->st_ctim = status->st_mtim;
}

void fill_status(uint32_t entry, struct statx* status) {
  const Attributes from = attributes_of(entry);
  memset(status, 0, sizeof(*status));
  status->stx_mask = STATX_BASIC_STATS;
  status->stx_dev_major = major(client.shown_device);
  status->stx_dev_minor = minor(client.shown_device);
  status->stx_ino = wire::inode_of(entry);
  status->stx_mode = static_cast<uint16_t>(from.mode);
  status->stx_nlink = from.link_count;
  status->stx_uid = client.user;
  status->stx_gid = client.group;
  status->stx_size = from.size_bytes;
  status->stx_blksize = kBlockBytes;
  status->stx_blocks = from.block_count;
  status->stx_mtime.tv_sec = from.seconds;
  status->stx_mtime.tv_nsec = static_cast<uint32_t>(from.nanoseconds);
  status->stx_atime = status->stx_mtime;
  status->stx_ctime = status->stx_mtime;
}

}  // namespace millrace::store

using namespace millrace::store;

extern "C" {

int stat(const char* path, struct stat* result) {
  static constinit Real<int(int, const char*, struct stat*, int)> real{"fstatat"};
  return on_stat(AT_FDCWD, path, result, 0,
                 [&](int base, const char* other) { return real(base, other, result, 0); });
}

int lstat(const char* path, struct stat* result) {
  static constinit Real<int(int, const char*, struct stat*, int)> real{"fstatat"};
  return on_stat(AT_FDCWD, path, result, AT_SYMLINK_NOFOLLOW, [&](int base, const char* other) {
    return real(base, other, result, AT_SYMLINK_NOFOLLOW);
  });
}

int fstat(int fd, struct stat* result) {
  static constinit Real<int(int, struct stat*)> real{"fstat"};
  if (int shown; stat_fast(fd, result, &shown)) return shown;
  return agreeing(fd, real(fd, result), result);
}

int fstatat(int directory, const char* path, struct stat* result, int flags) {
  static constinit Real<int(int, const char*, struct stat*, int)> real{"fstatat"};
  return on_stat(directory, path, result, flags,
                 [&](int base, const char* other) { return real(base, other, result, flags); });
}

// Before glibc 2.33 these were the functions behind the inline ones above.
int __xstat(int version, const char* path, struct stat* result) {
  static constinit Real<int(int, const char*, struct stat*)> real{"__xstat"};
  return on_stat(AT_FDCWD, path, result, 0,
                 [&](int, const char* other) { return real(version, other, result); });
}

int __lxstat(int version, const char* path, struct stat* result) {
  static constinit Real<int(int, const char*, struct stat*)> real{"__lxstat"};
  return on_stat(AT_FDCWD, path, result, AT_SYMLINK_NOFOLLOW,
                 [&](int, const char* other) { return real(version, other, result); });
}

int __fxstat(int version, int fd, struct stat* result) {
  static constinit Real<int(int, int, struct stat*)> real{"__fxstat"};
  if (int shown; stat_fast(fd, result, &shown)) return shown;
  return agreeing(fd, real(version, fd, result), result);
}

int __fxstatat(int version, int directory, const char* path, struct stat* result, int flags) {
  static constinit Real<int(int, int, const char*, struct stat*, int)> real{"__fxstatat"};
  return on_stat(directory, path, result, flags, [&](int base, const char* other) {
    return real(version, base, other, result, flags);
  });
}

int statx(int directory, const char* path, int flags, unsigned mask, struct statx* result) {
  static constinit Real<int(int, const char*, int, unsigned, struct statx*)> real{"statx"};
  return on_stat(directory, path, result, flags, [&](int base, const char* other) {
    return real(base, other, flags, mask, result);
  });
}

int access(const char* path, int mode) { return accessing(AT_FDCWD, path, mode, 0); }

int euidaccess(const char* path, int mode) { return accessing(AT_FDCWD, path, mode, AT_EACCESS); }

int faccessat(int directory, const char* path, int mode, int flags) {
  return accessing(directory, path, mode, flags);
}

int statfs(const char* path, struct statfs* result) {
  static constinit Real<int(const char*, struct statfs*)> real{"statfs"};
  return on_file_system(path, [&](const char* other) { return real(other, result); });
}

int statvfs(const char* path, struct statvfs* result) {
  static constinit Real<int(const char*, struct statvfs*)> real{"statvfs"};
  return on_file_system(path, [&](const char* other) { return real(other, result); });
}

ssize_t getxattr(const char* path, const char* name, void* value, size_t size) {
  static constinit Real<ssize_t(const char*, const char*, void*, size_t)> real{"getxattr"};
  return on_path(AT_FDCWD, path, Last::kFollow, no_attribute,
                 [&](int, const char* other) { return real(other, name, value, size); });
}

ssize_t lgetxattr(const char* path, const char* name, void* value, size_t size) {
  static constinit Real<ssize_t(const char*, const char*, void*, size_t)> real{"lgetxattr"};
  return on_path(AT_FDCWD, path, Last::kKeepLink, no_attribute,
                 [&](int, const char* other) { return real(other, name, value, size); });
}

ssize_t listxattr(const char* path, char* list, size_t size) {
  static constinit Real<ssize_t(const char*, char*, size_t)> real{"listxattr"};
  return on_path(AT_FDCWD, path, Last::kFollow, empty_list,
                 [&](int, const char* other) { return real(other, list, size); });
}

ssize_t llistxattr(const char* path, char* list, size_t size) {
  static constinit Real<ssize_t(const char*, char*, size_t)> real{"llistxattr"};
  return on_path(AT_FDCWD, path, Last::kKeepLink, empty_list,
                 [&](int, const char* other) { return real(other, list, size); });
}

}  // extern "C"

// Other names of the same calls. Defined in assembly, because headers declare some of them with
// types of their own, of the same layout.
asm(R"(
  .globl stat64
  .set stat64, stat
  .globl lstat64
  .set lstat64, lstat
  .globl fstat64
  .set fstat64, fstat
  .globl fstatat64
  .set fstatat64, fstatat
  .globl __xstat64
  .set __xstat64, __xstat
  .globl __lxstat64
  .set __lxstat64, __lxstat
  .globl __fxstat64
  .set __fxstat64, __fxstat
  .globl __fxstatat64
  .set __fxstatat64, __fxstatat
  .globl statfs64
  .set statfs64, statfs
  .globl statvfs64
  .set statvfs64, statvfs
  .globl eaccess
  .set eaccess, euidaccess
)");
