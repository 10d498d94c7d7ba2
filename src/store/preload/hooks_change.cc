// Calls that change names and attributes. The dataset is read-only (EROFS); what programs have
// created below the root is changed for real, in the tree of the node.
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utime.h>

#include "store/preload/hooks.h"
#include "store/preload/shown.h"
#include "store/preload/writers.h"

namespace millrace::store {
namespace {

constinit Real<int(int, const char*, int)> real_unlinkat{"unlinkat"};
constinit Real<int(int, const char*, mode_t)> real_mkdirat{"mkdirat"};
constinit Real<int(int, const char*, int, const char*, unsigned)> real_renameat2{"renameat2"};
constinit Real<int(int, const char*, int, const char*, int)> real_linkat{"linkat"};

// Between the store and other file systems, the kernel decides. What is in the catalogue stays: it
// cannot leave for another file system, nor be replaced.
template <typename Outside>
int on_two_paths(int from_directory, const char* from, int to_directory, const char* to,
                 Outside outside) {
  Lookup from_lookup;
  Lookup to_lookup;
  const Place source = from_lookup.find(from_directory, from, Last::kKeepLink);
  const Place target = to_lookup.find(to_directory, to, Last::kKeepLink);
  const bool is_new = target.where == Where::kFailed && target.is_written;
  if (source.where == Where::kFailed) return failure<int>(source.error);
  if (target.where == Where::kFailed && !is_new) return failure<int>(target.error);
  if (target.where == Where::kInside) return failure<int>(EROFS);
  if (source.where == Where::kInside) return failure<int>(target.is_written ? EROFS : EXDEV);
  if (source.where == Where::kElsewhere) from_directory = AT_FDCWD, from = source.path;
  // A file of another node is copied when it leaves the root.
  const bool leaves = source.where == Where::kElsewhere && target.where == Where::kOutside;
  if (leaves && is_shown(source.path)) return failure<int>(EXDEV);
  can_create(target);
  if (target.where != Where::kOutside) to_directory = AT_FDCWD, to = target.path;
  const int result = outside(from_directory, from, to_directory, to);
  return sharing(target.where != Where::kOutside ? to : from, result);
}

int renaming(int from_directory, const char* from, int to_directory, const char* to,
             unsigned flags) {
  return on_two_paths(from_directory, from, to_directory, to,
                      [&](int base, const char* source, int other, const char* target) {
                        return real_renameat2(base, source, other, target, flags);
                      });
}

int removing(int directory, const char* path, int flags) {
  return changing_path(directory, path, Last::kKeepLink, [&](int base, const char* other) {
    return sharing(other, real_unlinkat(base, other, flags));
  });
}

// A call that changes the bytes or attributes of a file.
template <typename Outside>
auto changing_file(int directory, const char* path, Last last, Outside outside) {
  if (const int error = take_named(directory, path); error != 0) {
    return failure<decltype(outside(directory, path))>(error);
  }
  return changing_path(directory, path, last, outside);
}

// The kernel tells the service when a writer closes a file, but nothing of truncate.
int truncating(const char* path, off_t size) {
  static constinit Real<int(const char*, off_t)> real{"truncate"};
  if (!active() || is_bad(path) || client.below_tree(path).data() == nullptr) {
    return real(path, size);
  }
  if (size < 0) return failure<int>(EINVAL);
  const int fd = hook::sys_open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return failure<int>(-fd);
  const int error = hook::sys_ftruncate(fd, static_cast<uint64_t>(size));
  hook::sys_close(fd);
  return error < 0 ? failure<int>(-error) : sharing(path, 0);
}

Last last_of_change(int flags) {
  return (flags & AT_SYMLINK_NOFOLLOW) != 0 ? Last::kKeepLink : Last::kFollow;
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
  if (const int error = take_named(from_directory, from); error != 0) return failure<int>(error);
  return on_two_paths(from_directory, from, to_directory, to,
                      [&](int base, const char* source, int other, const char* target) {
                        return real_linkat(base, source, other, target, flags);
                      });
}

int symlink(const char* text, const char* path) { return symlinkat(text, AT_FDCWD, path); }

int symlinkat(const char* text, int directory, const char* path) {
  static constinit Real<int(const char*, int, const char*)> real{"symlinkat"};
  return creating_path(directory, path, [&](int base, const char* other) {
    return sharing(other, real(text, base, other));
  });
}

int unlink(const char* path) { return removing(AT_FDCWD, path, 0); }

int unlinkat(int directory, const char* path, int flags) {
  return removing(directory, path, flags);
}

int rmdir(const char* path) { return removing(AT_FDCWD, path, AT_REMOVEDIR); }

int remove(const char* path) {
  static constinit Real<int(const char*)> real{"remove"};
  return changing_path(AT_FDCWD, path, Last::kKeepLink,
                       [&](int, const char* other) { return sharing(other, real(other)); });
}

int mkdir(const char* path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }

int mkdirat(int directory, const char* path, mode_t mode) {
  return creating_path(directory, path, [&](int base, const char* other) {
    return sharing(other, real_mkdirat(base, other, mode));
  });
}

int mknod(const char* path, mode_t mode, dev_t device) {
  static constinit Real<int(const char*, mode_t, dev_t)> real{"mknod"};
  return creating_path(AT_FDCWD, path,
                       [&](int, const char* other) { return real(other, mode, device); });
}

int mkfifo(const char* path, mode_t mode) {
  static constinit Real<int(const char*, mode_t)> real{"mkfifo"};
  return creating_path(AT_FDCWD, path, [&](int, const char* other) { return real(other, mode); });
}

int mknodat(int directory, const char* path, mode_t mode, dev_t device) {
  static constinit Real<int(int, const char*, mode_t, dev_t)> real{"mknodat"};
  return creating_path(directory, path, [&](int base, const char* other) {
    return real(base, other, mode, device);
  });
}

int mkfifoat(int directory, const char* path, mode_t mode) {
  static constinit Real<int(int, const char*, mode_t)> real{"mkfifoat"};
  return creating_path(directory, path,
                       [&](int base, const char* other) { return real(base, other, mode); });
}

int truncate(const char* path, off_t size) {
  return changing_file(AT_FDCWD, path, Last::kFollow,
                       [&](int, const char* other) { return truncating(other, size); });
}

int chmod(const char* path, mode_t mode) { return fchmodat(AT_FDCWD, path, mode, 0); }

int fchmodat(int directory, const char* path, mode_t mode, int flags) {
  static constinit Real<int(int, const char*, mode_t, int)> real{"fchmodat"};
  return changing_file(directory, path, last_of_change(flags),
                       [&](int base, const char* other) { return real(base, other, mode, flags); });
}

int fchmod(int fd, mode_t mode) {
  static constinit Real<int(int, mode_t)> real{"fchmod"};
  return changing_descriptor(fd, [&] { return real(fd, mode); });
}

int chown(const char* path, uid_t owner, gid_t group) {
  return fchownat(AT_FDCWD, path, owner, group, 0);
}

int lchown(const char* path, uid_t owner, gid_t group) {
  return fchownat(AT_FDCWD, path, owner, group, AT_SYMLINK_NOFOLLOW);
}

int fchownat(int directory, const char* path, uid_t owner, gid_t group, int flags) {
  static constinit Real<int(int, const char*, uid_t, gid_t, int)> real{"fchownat"};
  return changing_file(directory, path, last_of_change(flags), [&](int base, const char* other) {
    return real(base, other, owner, group, flags);
  });
}

int fchown(int fd, uid_t owner, gid_t group) {
  static constinit Real<int(int, uid_t, gid_t)> real{"fchown"};
  return changing_descriptor(fd, [&] { return real(fd, owner, group); });
}

int utime(const char* path, const struct utimbuf* times) {
  static constinit Real<int(const char*, const struct utimbuf*)> real{"utime"};
  return changing_file(AT_FDCWD, path, Last::kFollow,
                       [&](int, const char* other) { return real(other, times); });
}

int utimes(const char* path, const struct timeval times[2]) {
  static constinit Real<int(const char*, const struct timeval*)> real{"utimes"};
  return changing_file(AT_FDCWD, path, Last::kFollow,
                       [&](int, const char* other) { return real(other, times); });
}

int lutimes(const char* path, const struct timeval times[2]) {
  static constinit Real<int(const char*, const struct timeval*)> real{"lutimes"};
  return changing_file(AT_FDCWD, path, Last::kKeepLink,
                       [&](int, const char* other) { return real(other, times); });
}

int utimensat(int directory, const char* path, const struct timespec times[2], int flags) {
  static constinit Real<int(int, const char*, const struct timespec*, int)> real{"utimensat"};
  if (path == nullptr) {
    return changing_descriptor(directory, [&] { return real(directory, path, times, flags); });
  }
  return changing_file(directory, path, last_of_change(flags), [&](int base, const char* other) {
    return real(base, other, times, flags);
  });
}

int futimens(int fd, const struct timespec times[2]) {
  static constinit Real<int(int, const struct timespec*)> real{"futimens"};
  return changing_descriptor(fd, [&] { return real(fd, times); });
}

int futimes(int fd, const struct timeval times[2]) {
  static constinit Real<int(int, const struct timeval*)> real{"futimes"};
  return changing_descriptor(fd, [&] { return real(fd, times); });
}

int setxattr(const char* path, const char* name, const void* value, size_t size, int flags) {
  static constinit Real<int(const char*, const char*, const void*, size_t, int)> real{"setxattr"};
  return changing_file(AT_FDCWD, path, Last::kFollow, [&](int, const char* other) {
    return real(other, name, value, size, flags);
  });
}

int lsetxattr(const char* path, const char* name, const void* value, size_t size, int flags) {
  static constinit Real<int(const char*, const char*, const void*, size_t, int)> real{"lsetxattr"};
  return changing_file(AT_FDCWD, path, Last::kKeepLink, [&](int, const char* other) {
    return real(other, name, value, size, flags);
  });
}

int fsetxattr(int fd, const char* name, const void* value, size_t size, int flags) {
  static constinit Real<int(int, const char*, const void*, size_t, int)> real{"fsetxattr"};
  return changing_descriptor(fd, [&] { return real(fd, name, value, size, flags); });
}

int removexattr(const char* path, const char* name) {
  static constinit Real<int(const char*, const char*)> real{"removexattr"};
  return changing_file(AT_FDCWD, path, Last::kFollow,
                       [&](int, const char* other) { return real(other, name); });
}

int lremovexattr(const char* path, const char* name) {
  static constinit Real<int(const char*, const char*)> real{"lremovexattr"};
  return changing_file(AT_FDCWD, path, Last::kKeepLink,
                       [&](int, const char* other) { return real(other, name); });
}

int fremovexattr(int fd, const char* name) {
  static constinit Real<int(int, const char*)> real{"fremovexattr"};
  return changing_descriptor(fd, [&] { return real(fd, name); });
}

}  // extern "C"

// Another name of the same call.
asm(R"(
  .globl truncate64
  .set truncate64, truncate
)");
