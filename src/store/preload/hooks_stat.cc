// Reading the attributes of files.
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "hook/syscall.h"
#include "hook/text.h"
#include "store/preload/fast.h"
#include "store/preload/hooks.h"

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

int64_t time_ns(const struct timespec& time) { return time.tv_sec * kNsPerSecond + time.tv_nsec; }
int64_t time_ns(const struct statx_timestamp& time) {
  return time.tv_sec * kNsPerSecond + time.tv_nsec;
}

RealAttributes attributes_of(const struct stat& status) {
  return {.device = status.st_dev,
          .mode = status.st_mode,
          .size_bytes = static_cast<uint64_t>(status.st_size),
          .mtime_ns = time_ns(status.st_mtim)};
}
RealAttributes attributes_of(const struct statx& status) {
  return {.device = makedev(status.stx_dev_major, status.stx_dev_minor),
          .mode = status.stx_mode,
          .size_bytes = status.stx_size,
          .mtime_ns = time_ns(status.stx_mtime)};
}

// After a successful fstat: shows the same as stat if the descriptor is one of the store.
template <typename Status>
int agreeing(int fd, int result, Status* status) {
  if (result != 0 || !active()) return result;
  const uint32_t entry = entry_of(fd, attributes_of(*status));
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

// The path is empty: the call means the descriptor.
bool means_descriptor(const char* path, int flags) {
  return (flags & AT_EMPTY_PATH) != 0 && (path == nullptr || (!is_bad(path) && *path == '\0'));
}

template <typename Status, typename Outside>
int on_stat(int directory, const char* path, Status* status, int flags, Outside outside) {
  constexpr int kFlags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_EMPTY_PATH | AT_STATX_SYNC_TYPE;
  if ((flags & ~kFlags) != 0) return outside(directory, path);  // which is EINVAL
  if (means_descriptor(path, flags)) {
    if (int result; stat_fast(directory, status, &result)) return result;
    const int result = outside(directory, path);
    if (directory != AT_FDCWD) return agreeing(directory, result, status);
    const uint32_t entry = active() ? working_directory_entry() : kNoEntry;
    if (result == 0 && entry != kNoEntry) fill_status(entry, status);
    return result;
  }
  return on_path(
      directory, path, last_of_at(flags),
      [&](uint32_t entry) {
        if (is_bad(status)) return failure<int>(EFAULT);
        fill_status(entry, status);
        return 0;
      },
      outside);
}

// The files belong to the user who runs the job.
int check_access(uint32_t index, int mode) {
  const wire::CatalogueEntry entry = entry_at(index);
  const bool is_superuser = hook::sys_geteuid() == 0;
  if ((mode & W_OK) != 0 && entry.kind == EntryKind::kDirectory && !client.upper.empty()) {
    const hook::Scratch<RealPath> path;
    if (!path || !path->in_upper(index)) return failure<int>(ENAMETOOLONG);
    const int saved_errno = errno;
    const int result = real_call<faccessat>(AT_FDCWD, path->text, mode, 0);
    if (result == 0 || errno != ENOENT) return result;
    errno = saved_errno;
    if (!is_superuser && (entry.mode & 0200) == 0) return failure<int>(EACCES);
  } else if ((mode & W_OK) != 0) {
    return failure<int>(EROFS);
  }
  if ((mode & R_OK) != 0 && !is_superuser && (entry.mode & 0400) == 0) return failure<int>(EACCES);
  const uint32_t executable = is_superuser && entry.kind == EntryKind::kFile ? 0111 : 0100;
  const bool may_search = is_superuser && entry.kind == EntryKind::kDirectory;
  if ((mode & X_OK) != 0 && !may_search && (entry.mode & executable) == 0) {
    return failure<int>(EACCES);
  }
  return 0;
}

// The file system of the store is the one where files are created.
template <auto kHook, typename Status>
int on_file_system(const char* path, Status* status) {
  const auto real = [&](const char* other) { return real_call<kHook>(other, status); };
  const auto inside = [&](uint32_t) {
    return client.upper.empty() ? with_real_path(wire::kRootEntry, real)
                                : real(client.state->upper);
  };
  return on_first_path<kHook>(Last::kFollow, inside, path, status);
}

// There are no extended attributes.
ssize_t no_attribute(uint32_t) { return failure<ssize_t>(ENODATA); }
ssize_t empty_list(uint32_t) { return 0; }

}  // namespace

void fill_status(uint32_t index, struct stat* status) {
  const wire::CatalogueEntry entry = entry_at(index);
  const bool is_directory = entry.kind == EntryKind::kDirectory;
  const uint64_t size_bytes = is_directory ? kDirectoryBytes : entry.size_bytes;
  memset(status, 0, sizeof(*status));
  status->st_dev = client.shown_device;
  status->st_ino = wire::inode_of(index);
  status->st_mode = wire::stat_mode(entry);
  status->st_nlink = is_directory ? 2 + subdirectory_count(index) : 1;
  status->st_uid = client.user;
  status->st_gid = client.group;
  status->st_size = static_cast<off_t>(size_bytes);
  status->st_blksize = kBlockBytes;
  if (entry.kind != EntryKind::kLink) {
    const uint64_t blocks = (size_bytes + kBlockBytes - 1) / kBlockBytes;
    status->st_blocks = static_cast<blkcnt_t>(blocks * (kBlockBytes / 512));
  }
  int64_t rest_ns = entry.mtime_ns % kNsPerSecond;
  if (rest_ns < 0) rest_ns += kNsPerSecond;
  status->st_mtim = {.tv_sec = (entry.mtime_ns - rest_ns) / kNsPerSecond, .tv_nsec = rest_ns};
  status->st_atim = status->st_mtim;
  status->st_ctim = status->st_mtim;
}

void fill_status(uint32_t index, struct statx* status) {
  struct stat from;
  fill_status(index, &from);
  memset(status, 0, sizeof(*status));
  status->stx_mask = STATX_BASIC_STATS;
  status->stx_dev_major = major(from.st_dev);
  status->stx_dev_minor = minor(from.st_dev);
  status->stx_ino = from.st_ino;
  status->stx_mode = static_cast<uint16_t>(from.st_mode);
  status->stx_nlink = static_cast<uint32_t>(from.st_nlink);
  status->stx_uid = from.st_uid;
  status->stx_gid = from.st_gid;
  status->stx_size = static_cast<uint64_t>(from.st_size);
  status->stx_blksize = kBlockBytes;
  status->stx_blocks = static_cast<uint64_t>(from.st_blocks);
  status->stx_mtime.tv_sec = from.st_mtim.tv_sec;
  status->stx_mtime.tv_nsec = static_cast<uint32_t>(from.st_mtim.tv_nsec);
  status->stx_atime = status->stx_mtime;
  status->stx_ctime = status->stx_mtime;
}

}  // namespace millrace::store

using namespace millrace::store;

extern "C" {

int stat(const char* path, struct stat* result) { return fstatat(AT_FDCWD, path, result, 0); }
int lstat(const char* path, struct stat* result) {
  return fstatat(AT_FDCWD, path, result, AT_SYMLINK_NOFOLLOW);
}

int fstat(int fd, struct stat* result) {
  if (int shown; stat_fast(fd, result, &shown)) return shown;
  return agreeing(fd, real_call<fstat>(fd, result), result);
}

int fstatat(int directory, const char* path, struct stat* result, int flags) {
  return on_stat(directory, path, result, flags, [&](int base, const char* other) {
    return real_call<fstatat>(base, other, result, flags);
  });
}

// Before glibc 2.33 these were the functions behind the inline ones above. The version is that of
// the only struct.
int __xstat(int, const char* path, struct stat* result) { return stat(path, result); }
int __lxstat(int, const char* path, struct stat* result) { return lstat(path, result); }
int __fxstat(int, int fd, struct stat* result) { return fstat(fd, result); }
int __fxstatat(int, int directory, const char* path, struct stat* result, int flags) {
  return fstatat(directory, path, result, flags);
}

int statx(int directory, const char* path, int flags, unsigned mask, struct statx* result) {
  const auto real = [&](int base, const char* other) {
    return real_call<statx>(base, other, flags, mask, result);
  };
  return (mask & STATX__RESERVED) != 0 ? real(directory, path)  // which is EINVAL
                                       : on_stat(directory, path, result, flags, real);
}

int faccessat(int directory, const char* path, int mode, int flags) {
  constexpr int kFlags = AT_EACCESS | AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH;
  const auto real = [&](int base, const char* other) {
    return real_call<faccessat>(base, other, mode, flags);
  };
  if ((mode & ~(R_OK | W_OK | X_OK)) != 0 || (flags & ~kFlags) != 0) {
    return real(directory, path);  // which is EINVAL
  }
  const auto inside = [&](uint32_t entry) { return check_access(entry, mode); };
  return on_path(directory, path, last_of_at(flags), inside, real);
}
int access(const char* path, int mode) { return faccessat(AT_FDCWD, path, mode, 0); }
// The C library ignores other bits here.
int euidaccess(const char* path, int mode) {
  return faccessat(AT_FDCWD, path, mode & (R_OK | W_OK | X_OK), AT_EACCESS);
}
int statfs(const char* path, struct statfs* result) { return on_file_system<statfs>(path, result); }
int statvfs(const char* path, struct statvfs* result) {
  return on_file_system<statvfs>(path, result);
}
ssize_t getxattr(const char* path, const char* name, void* value, size_t size) {
  return on_first_path<getxattr>(Last::kFollow, no_attribute, path, name, value, size);
}
ssize_t lgetxattr(const char* path, const char* name, void* value, size_t size) {
  return on_first_path<lgetxattr>(Last::kKeepLink, no_attribute, path, name, value, size);
}
ssize_t listxattr(const char* path, char* list, size_t size) {
  return on_first_path<listxattr>(Last::kFollow, empty_list, path, list, size);
}
ssize_t llistxattr(const char* path, char* list, size_t size) {
  return on_first_path<llistxattr>(Last::kKeepLink, empty_list, path, list, size);
}

}  // extern "C"

asm("names_64 stat, lstat, fstat, fstatat, __xstat, __lxstat, __fxstat, __fxstatat, statfs, statvfs");
asm("also eaccess, euidaccess");
