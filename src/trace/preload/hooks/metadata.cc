// Reading and changing the attributes of files.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <unistd.h>
#include <utime.h>

#include "trace/preload/hooks/hooks.h"

namespace millrace::trace {
namespace {

// The size of a regular file. 0 for other files, whose size means something else.
uint64_t size_of(const struct stat& status) {
  return S_ISREG(status.st_mode) ? static_cast<uint64_t>(status.st_size) : 0;
}
uint64_t size_of(const struct statx& status) {
  constexpr uint32_t kNeeded = STATX_TYPE | STATX_SIZE;
  const bool known = (status.stx_mask & kNeeded) == kNeeded;
  return known && S_ISREG(status.stx_mode) ? status.stx_size : 0;
}

// Calls that read the attributes of a file. They record its size, because no other call shows the
// size of a file that was read only in part.
struct StatPath {
  int directory = AT_FDCWD;
  const char* path;
};
template <typename Body, typename Attributes>
int on_stat_path(Call call, StatPath stat_path, const Attributes* attributes, Body body) {
  if (!recording(Level::kPosix)) return body();
  const uint64_t begin = now();
  const int result = body();
  const uint64_t end = now();
  const int error = result < 0 ? errno : 0;
  const NameId name = intern_path_after(error, stat_path.directory, stat_path.path);
  if (!ignored(name)) {
    record({.call = call, .file = name, .size = result == 0 ? size_of(*attributes) : 0},
           {begin, end, result, error});
  }
  return result;
}

template <typename Body>
int on_stat_descriptor(int fd, const struct stat* attributes, Body body) {
  if (!recording(Level::kPosix)) return body();
  const hook::Description* description = describe(fd);
  if (ignored(description)) return body();
  const uint64_t begin = now();
  const int result = body();
  const uint64_t end = now();
  record({.call = Call::kFstat,
          .file = file_of(description),
          .size = result == 0 ? size_of(*attributes) : 0},
         {begin, end, result, result < 0 ? errno : 0});
  return result;
}

}  // namespace
}  // namespace millrace::trace

using namespace millrace::trace;

extern "C" {

int stat(const char* path, struct stat* result) {
  static constinit Real<int(const char*, struct stat*)> real{"stat"};
  return on_stat_path(Call::kStat, {.path = path}, result, [&] { return real(path, result); });
}

int lstat(const char* path, struct stat* result) {
  static constinit Real<int(const char*, struct stat*)> real{"lstat"};
  return on_stat_path(Call::kLstat, {.path = path}, result, [&] { return real(path, result); });
}

int fstat(int fd, struct stat* result) {
  static constinit Real<int(int, struct stat*)> real{"fstat"};
  return on_stat_descriptor(fd, result, [&] { return real(fd, result); });
}

int fstatat(int directory, const char* path, struct stat* result, int flags) {
  static constinit Real<int(int, const char*, struct stat*, int)> real{"fstatat"};
  return on_stat_path(Call::kFstatat, {directory, path}, result,
                      [&] { return real(directory, path, result, flags); });
}

// Before glibc 2.33 these were the functions behind the inline ones above.
int __xstat(int version, const char* path, struct stat* result) {
  static constinit Real<int(int, const char*, struct stat*)> real{"__xstat"};
  return on_stat_path(Call::kStat, {.path = path}, result,
                      [&] { return real(version, path, result); });
}

int __lxstat(int version, const char* path, struct stat* result) {
  static constinit Real<int(int, const char*, struct stat*)> real{"__lxstat"};
  return on_stat_path(Call::kLstat, {.path = path}, result,
                      [&] { return real(version, path, result); });
}

int __fxstat(int version, int fd, struct stat* result) {
  static constinit Real<int(int, int, struct stat*)> real{"__fxstat"};
  return on_stat_descriptor(fd, result, [&] { return real(version, fd, result); });
}

int __fxstatat(int version, int directory, const char* path, struct stat* result, int flags) {
  static constinit Real<int(int, int, const char*, struct stat*, int)> real{"__fxstatat"};
  return on_stat_path(Call::kFstatat, {directory, path}, result,
                      [&] { return real(version, directory, path, result, flags); });
}

int statx(int directory, const char* path, int flags, unsigned mask, struct statx* result) {
  static constinit Real<int(int, const char*, int, unsigned, struct statx*)> real{"statx"};
  return on_stat_path(Call::kStatx, {directory, path}, result,
                      [&] { return real(directory, path, flags, mask, result); });
}

int statfs(const char* path, struct statfs* result) {
  static constinit Real<int(const char*, struct statfs*)> real{"statfs"};
  return on_path(Call::kStatfs, path, [&] { return real(path, result); });
}

int fstatfs(int fd, struct statfs* result) {
  static constinit Real<int(int, struct statfs*)> real{"fstatfs"};
  return on_descriptor(Call::kFstatfs, fd, [&] { return real(fd, result); });
}

int statvfs(const char* path, struct statvfs* result) {
  static constinit Real<int(const char*, struct statvfs*)> real{"statvfs"};
  return on_path(Call::kStatvfs, path, [&] { return real(path, result); });
}

int fstatvfs(int fd, struct statvfs* result) {
  static constinit Real<int(int, struct statvfs*)> real{"fstatvfs"};
  return on_descriptor(Call::kFstatvfs, fd, [&] { return real(fd, result); });
}

int access(const char* path, int mode) {
  static constinit Real<int(const char*, int)> real{"access"};
  return on_path(Call::kAccess, path, [&] { return real(path, mode); });
}

int euidaccess(const char* path, int mode) {
  static constinit Real<int(const char*, int)> real{"euidaccess"};
  return on_path(Call::kAccess, path, [&] { return real(path, mode); });
}

int faccessat(int directory, const char* path, int mode, int flags) {
  static constinit Real<int(int, const char*, int, int)> real{"faccessat"};
  return on_path_at(Call::kFaccessat, directory, path,
                    [&] { return real(directory, path, mode, flags); });
}

int chmod(const char* path, mode_t mode) {
  static constinit Real<int(const char*, mode_t)> real{"chmod"};
  return on_path(Call::kChmod, path, [&] { return real(path, mode); });
}

int lchmod(const char* path, mode_t mode) {
  static constinit Real<int(const char*, mode_t)> real{"lchmod"};
  return on_path(Call::kChmod, path, [&] { return real(path, mode); });
}

int fchmod(int fd, mode_t mode) {
  static constinit Real<int(int, mode_t)> real{"fchmod"};
  return on_descriptor(Call::kFchmod, fd, [&] { return real(fd, mode); });
}

int fchmodat(int directory, const char* path, mode_t mode, int flags) {
  static constinit Real<int(int, const char*, mode_t, int)> real{"fchmodat"};
  return on_path_at(Call::kFchmodat, directory, path,
                    [&] { return real(directory, path, mode, flags); });
}

int chown(const char* path, uid_t owner, gid_t group) {
  static constinit Real<int(const char*, uid_t, gid_t)> real{"chown"};
  return on_path(Call::kChown, path, [&] { return real(path, owner, group); });
}

int lchown(const char* path, uid_t owner, gid_t group) {
  static constinit Real<int(const char*, uid_t, gid_t)> real{"lchown"};
  return on_path(Call::kLchown, path, [&] { return real(path, owner, group); });
}

int fchown(int fd, uid_t owner, gid_t group) {
  static constinit Real<int(int, uid_t, gid_t)> real{"fchown"};
  return on_descriptor(Call::kFchown, fd, [&] { return real(fd, owner, group); });
}

int fchownat(int directory, const char* path, uid_t owner, gid_t group, int flags) {
  static constinit Real<int(int, const char*, uid_t, gid_t, int)> real{"fchownat"};
  return on_path_at(Call::kFchownat, directory, path,
                    [&] { return real(directory, path, owner, group, flags); });
}

int utime(const char* path, const struct utimbuf* times) {
  static constinit Real<int(const char*, const struct utimbuf*)> real{"utime"};
  return on_path(Call::kUtime, path, [&] { return real(path, times); });
}

int utimes(const char* path, const struct timeval times[2]) {
  static constinit Real<int(const char*, const struct timeval*)> real{"utimes"};
  return on_path(Call::kUtimes, path, [&] { return real(path, times); });
}

int lutimes(const char* path, const struct timeval times[2]) {
  static constinit Real<int(const char*, const struct timeval*)> real{"lutimes"};
  return on_path(Call::kLutimes, path, [&] { return real(path, times); });
}

int futimes(int fd, const struct timeval times[2]) {
  static constinit Real<int(int, const struct timeval*)> real{"futimes"};
  return on_descriptor(Call::kFutimes, fd, [&] { return real(fd, times); });
}

int futimesat(int directory, const char* path, const struct timeval times[2]) {
  static constinit Real<int(int, const char*, const struct timeval*)> real{"futimesat"};
  return on_path_at(Call::kFutimesat, directory, path,
                    [&] { return real(directory, path, times); });
}

int utimensat(int directory, const char* path, const struct timespec times[2], int flags) {
  static constinit Real<int(int, const char*, const struct timespec*, int)> real{"utimensat"};
  return on_path_at(Call::kUtimensat, directory, path,
                    [&] { return real(directory, path, times, flags); });
}

int futimens(int fd, const struct timespec times[2]) {
  static constinit Real<int(int, const struct timespec*)> real{"futimens"};
  return on_descriptor(Call::kFutimens, fd, [&] { return real(fd, times); });
}

}  // extern "C"

// Other names of the same calls: for 64-bit files, and internal to the C library. Defined in
// assembly, because headers declare some of them with types of their own, of the same layout.
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
  .globl fstatfs64
  .set fstatfs64, fstatfs
  .globl statvfs64
  .set statvfs64, statvfs
  .globl fstatvfs64
  .set fstatvfs64, fstatvfs
  .globl eaccess
  .set eaccess, euidaccess
)");
