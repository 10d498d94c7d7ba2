// Calls that change names and attributes. The dataset is read-only (EROFS); what programs have
// created below the root is changed by the kernel, in the upper directory.
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utime.h>

#include "store/preload/hooks.h"

namespace millrace::store {
namespace {

// Between the store and other file systems, the kernel decides. What is in the catalogue stays: it
// cannot leave for another file system, nor be replaced. `exists` is the error if it is the target.
template <typename Outside>
int on_two_paths(int from_directory, const char* from, Last from_last, int to_directory,
                 const char* to, int exists, Outside outside) {
  Lookup from_lookup;
  Lookup to_lookup;
  const Place source = from_lookup.find(from_directory, from, from_last);
  const Place target = to_lookup.find(to_directory, to, Last::kName);
  if (source.where == Where::kFailed) return failure<int>(source.error);
  if (target.where == Where::kFailed && !target.is_new) return failure<int>(target.error);
  if (target.where == Where::kInside) return failure<int>(exists);
  if (source.where == Where::kInside) {
    return failure<int>(target.where == Where::kOutside ? EXDEV : EROFS);
  }
  if (source.where == Where::kElsewhere) from_directory = AT_FDCWD, from = source.path;
  if (target.where == Where::kOutside) return outside(from_directory, from, to_directory, to);
  return creating(
      target, [&](const char* other) { return outside(from_directory, from, AT_FDCWD, other); });
}

// Such a name means a directory: the kernel decides.
bool ends_with_slash(const Place& place) {
  return place.path != nullptr && place.path[strlen(place.path) - 1] == '/';
}

// A file in the buffer gets another name there. kNotBuffered: the upper directory decides, after
// the buffer has nothing under either name.
int renaming_buffered(int from_directory, const char* from, int to_directory, const char* to,
                      unsigned flags) {
  if (!active() || !client.has_buffer()) return kNotBuffered;
  Lookup from_lookup;
  Lookup to_lookup;
  const Place source = from_lookup.find_anywhere(from_directory, from, Last::kName);
  const Place target = to_lookup.find_anywhere(to_directory, to, Last::kName);
  if (!concerns_buffer(source) && !concerns_buffer(target)) return kNotBuffered;
  const int saved_errno = errno;
  if (source.is_created && target.is_created && source.where == Where::kElsewhere &&
      !ends_with_slash(source) && !ends_with_slash(target)) {
    const int result = creating(target, [&](const char*) {
      const int renamed = rename_buffered(client.buffer, source.relative, target.relative, flags);
      if (renamed == 0) return 0;
      errno = renamed == kNotBuffered ? 0 : -renamed;
      return renamed == kNotBuffered ? kNotBuffered : -1;
    });
    if (result != kNotBuffered) return result;
    errno = saved_errno;
  }
  const int error = wait_native(client.buffer, source.is_created ? source.relative : "",
                                target.is_created ? target.relative : "");
  return error < 0 ? failure<int>(-error) : kNotBuffered;
}

int renaming(int from_directory, const char* from, int to_directory, const char* to,
             unsigned flags) {
  constexpr unsigned kAlone = RENAME_NOREPLACE | RENAME_WHITEOUT;
  const bool is_valid = (flags & ~(kAlone | RENAME_EXCHANGE)) == 0 &&
                        ((flags & RENAME_EXCHANGE) == 0 || (flags & kAlone) == 0);
  if (!is_valid) return failure<int>(EINVAL);  // before the paths, as in the kernel
  const int result = renaming_buffered(from_directory, from, to_directory, to, flags);
  if (result != kNotBuffered) return result;
  return on_two_paths(from_directory, from, Last::kName, to_directory, to, EROFS,
                      [&](int base, const char* source, int other, const char* target) {
                        return real_call<renameat2>(base, source, other, target, flags);
                      });
}

// Calls change(relative) for a name in the buffer, or one that it would take. kNotBuffered: it is
// another one, or must be changed in the upper directory.
template <typename Change>
int changing_buffered(int directory, const char* path, Last last, Change change) {
  if (!active() || !client.has_buffer()) return kNotBuffered;
  Lookup lookup;
  const Place place = lookup.find_anywhere(directory, path, last);
  if (place.where != Where::kElsewhere || !concerns_buffer(place) || ends_with_slash(place)) {
    return kNotBuffered;
  }
  const int result = change(place.relative);
  return result >= 0 || result == kNotBuffered ? result : failure<int>(-result);
}

int removing(int directory, const char* path, int flags) {
  if ((flags & AT_REMOVEDIR) == 0) {
    const int result = changing_buffered(directory, path, Last::kName, [](std::string_view name) {
      return remove_buffered(client.buffer, name);
    });
    if (result != kNotBuffered) return result;
  }
  return changing_path(directory, path, Last::kName, [&](int base, const char* other) {
    return real_call<unlinkat>(base, other, flags);
  });
}

}  // namespace
}  // namespace millrace::store

using namespace millrace::store;

extern "C" {

int rename(const char* from, const char* to) { return renaming(AT_FDCWD, from, AT_FDCWD, to, 0); }
int renameat(int from_directory, const char* from, int to_directory, const char* to) {
  return renaming(from_directory, from, to_directory, to, 0);
}

int renameat2(int from_directory, const char* from, int to_directory, const char* to,
              unsigned flags) {
  return renaming(from_directory, from, to_directory, to, flags);
}

int link(const char* from, const char* to) { return linkat(AT_FDCWD, from, AT_FDCWD, to, 0); }

int linkat(int from_directory, const char* from, int to_directory, const char* to, int flags) {
  const bool is_empty = (flags & AT_EMPTY_PATH) != 0 && !is_bad(from) && *from == '\0';
  if (is_empty && entry_of(from_directory) != kNoEntry) return failure<int>(EXDEV);
  ProcName descriptor;
  const bool is_named = !is_bad(from) && parse_proc_name(from, descriptor);
  if (is_in_buffer(is_empty ? from_directory : is_named ? descriptor.directory : -1)) {
    return failure<int>(EXDEV);  // it may have been copied already
  }
  const Last last = (flags & AT_SYMLINK_FOLLOW) != 0 ? Last::kFollow : Last::kName;
  if (!leave_buffer(from_directory, from, last) || !leave_buffer(to_directory, to, Last::kName)) {
    return -1;
  }
  return on_two_paths(from_directory, from, last, to_directory, to, EEXIST,
                      [&](int base, const char* source, int other, const char* target) {
                        return real_call<linkat>(base, source, other, target, flags);
                      });
}

int symlink(const char* text, const char* path) { return symlinkat(text, AT_FDCWD, path); }

int symlinkat(const char* text, int directory, const char* path) {
  return creating_path(directory, path, [&](int base, const char* other) {
    return real_call<symlinkat>(text, base, other);
  });
}

int unlink(const char* path) { return removing(AT_FDCWD, path, 0); }
int unlinkat(int directory, const char* path, int flags) {
  return removing(directory, path, flags);
}
int rmdir(const char* path) { return removing(AT_FDCWD, path, AT_REMOVEDIR); }

int remove(const char* path) {
  const int saved_errno = errno;
  const int result = removing(AT_FDCWD, path, 0);
  if (result == 0 || (errno != EISDIR && errno != EPERM)) return result;
  errno = saved_errno;
  return removing(AT_FDCWD, path, AT_REMOVEDIR);
}

int mkdir(const char* path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }
int mkdirat(int directory, const char* path, mode_t mode) {
  return creating_at<mkdirat>(directory, path, mode);
}
int mknod(const char* path, mode_t mode, dev_t device) {
  return mknodat(AT_FDCWD, path, mode, device);
}
int mkfifo(const char* path, mode_t mode) { return mkfifoat(AT_FDCWD, path, mode); }
int mknodat(int directory, const char* path, mode_t mode, dev_t device) {
  return creating_at<mknodat>(directory, path, mode, device);
}
int mkfifoat(int directory, const char* path, mode_t mode) {
  return creating_at<mkfifoat>(directory, path, mode);
}
int truncate(const char* path, off_t size) { return changing<truncate>(Last::kFollow, path, size); }
int chmod(const char* path, mode_t mode) { return fchmodat(AT_FDCWD, path, mode, 0); }

int fchmodat(int directory, const char* path, mode_t mode, int flags) {
  const Last last = last_of_at(flags);
  const int result = changing_buffered(directory, path, last, [&](std::string_view name) {
    return set_mode_buffered(client.buffer, name, mode);
  });
  if (result != kNotBuffered) return result;
  return changing_at<fchmodat>(last, directory, path, mode, flags);
}

int fchmod(int fd, mode_t mode) { return changing_descriptor<fchmod>(fd, mode); }
int chown(const char* path, uid_t owner, gid_t group) {
  return fchownat(AT_FDCWD, path, owner, group, 0);
}
int lchown(const char* path, uid_t owner, gid_t group) {
  return fchownat(AT_FDCWD, path, owner, group, AT_SYMLINK_NOFOLLOW);
}
int fchownat(int directory, const char* path, uid_t owner, gid_t group, int flags) {
  return changing_at<fchownat>(last_of_at(flags), directory, path, owner, group, flags);
}
int fchown(int fd, uid_t owner, gid_t group) {
  return changing_descriptor<fchown>(fd, owner, group);
}
int utime(const char* path, const struct utimbuf* times) {
  return changing<utime>(Last::kFollow, path, times);
}
int utimes(const char* path, const struct timeval times[2]) {
  return changing<utimes>(Last::kFollow, path, times);
}
int lutimes(const char* path, const struct timeval times[2]) {
  return changing<lutimes>(Last::kKeepLink, path, times);
}

int utimensat(int directory, const char* path, const struct timespec times[2], int flags) {
  if (path == nullptr) {
    return changing_descriptor<utimensat>(directory, path, times, flags);
  }
  const Last last = last_of_at(flags);
  const int result = changing_buffered(directory, path, last, [&](std::string_view name) {
    return set_times_buffered(client.buffer, name, times);
  });
  if (result != kNotBuffered) return result;
  return changing_at<utimensat>(last, directory, path, times, flags);
}

int futimens(int fd, const struct timespec times[2]) {
  return changing_descriptor<futimens>(fd, times);
}
int futimes(int fd, const struct timeval times[2]) {
  return changing_descriptor<futimes>(fd, times);
}
int setxattr(const char* path, const char* name, const void* value, size_t size, int flags) {
  return changing<setxattr>(Last::kFollow, path, name, value, size, flags);
}
int lsetxattr(const char* path, const char* name, const void* value, size_t size, int flags) {
  return changing<lsetxattr>(Last::kKeepLink, path, name, value, size, flags);
}

int fsetxattr(int fd, const char* name, const void* value, size_t size, int flags) {
  if (is_in_buffer(fd)) return failure<int>(EOPNOTSUPP);  // it would not be copied
  return changing_descriptor<fsetxattr>(fd, name, value, size, flags);
}

int removexattr(const char* path, const char* name) {
  return changing<removexattr>(Last::kFollow, path, name);
}
int lremovexattr(const char* path, const char* name) {
  return changing<lremovexattr>(Last::kKeepLink, path, name);
}
int fremovexattr(int fd, const char* name) { return changing_descriptor<fremovexattr>(fd, name); }
int lchmod(const char* path, mode_t mode) { return changing<lchmod>(Last::kKeepLink, path, mode); }

int futimesat(int directory, const char* path, const struct timeval times[2]) {
  if (path == nullptr) return changing_descriptor<futimesat>(directory, path, times);
  return changing_at<futimesat>(Last::kFollow, directory, path, times);
}

int __xmknod(int, const char* path, mode_t mode, dev_t* device) {
  return mknod(path, mode, *device);
}
int __xmknodat(int, int directory, const char* path, mode_t mode, dev_t* device) {
  return mknodat(directory, path, mode, *device);
}

}  // extern "C"

asm("names_64 truncate");
