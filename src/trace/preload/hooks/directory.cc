// Reading directories.
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <unistd.h>

#include "trace/preload/hooks/hooks.h"

namespace millrace::trace {
namespace {

// `name_after(error)` gives the name after the call.
template <typename NameAfter, typename Body>
DIR* opening_directory(Call call, NameAfter name_after, Body body) {
  const uint64_t begin = now();
  DIR* directory = body();
  const uint64_t end = now();
  const int error = directory == nullptr ? errno : 0;
  const NameId name = name_after(error);
  if (directory != nullptr) note_opened(dirfd(directory), name, hook::kNotSeekable);
  if (!ignored(name) && recording(Level::kPosix)) {
    record({.call = call, .file = name}, {begin, end, directory == nullptr ? -1 : 0, error});
  }
  return directory;
}

// The result is the number of entries: 1, or 0 at the end. errno distinguishes the end from a
// failure.
template <typename Body>
auto reading_directory(DIR* directory, Body body) {
  if (!recording(Level::kPosix)) return body();
  const hook::Description* description = describe(dirfd(directory));
  if (ignored(description)) return body();
  const int errno_before = errno;
  errno = 0;
  const uint64_t begin = now();
  const auto entry = body();
  const uint64_t end = now();
  const int error = entry == nullptr ? errno : 0;
  if (error == 0) errno = errno_before;
  const int64_t result = entry != nullptr ? 1 : error == 0 ? 0 : -1;
  record({.call = Call::kReaddir, .file = file_of(description)}, {begin, end, result, error});
  return entry;
}

template <typename Body>
void on_directory(Call call, DIR* directory, Body body) {
  if (!recording(Level::kPosix)) return body();
  const hook::Description* description = describe(dirfd(directory));
  if (ignored(description)) return body();
  traced({.call = call, .file = file_of(description)}, [&] {
    body();
    return 0;
  });
}

}  // namespace
}  // namespace millrace::trace

using namespace millrace::trace;

extern "C" {

DIR* opendir(const char* path) {
  static constinit Real<DIR*(const char*)> real{"opendir"};
  if (!tracking()) return real(path);
  return opening_directory(
      Call::kOpendir, [&](int error) { return intern_path_after(error, AT_FDCWD, path); },
      [&] { return real(path); });
}

DIR* fdopendir(int fd) {
  static constinit Real<DIR*(int)> real{"fdopendir"};
  if (!tracking()) return real(fd);
  return opening_directory(
      Call::kFdopendir, [&](int) { return file_of(describe(fd)); }, [&] { return real(fd); });
}

struct dirent* readdir(DIR* directory) {
  static constinit Real<struct dirent*(DIR*)> real{"readdir"};
  return reading_directory(directory, [&] { return real(directory); });
}

struct dirent64* readdir64(DIR* directory) {
  static constinit Real<struct dirent64*(DIR*)> real{"readdir64"};
  return reading_directory(directory, [&] { return real(directory); });
}

int readdir_r(DIR* directory, struct dirent* entry, struct dirent** result) {
  static constinit Real<int(DIR*, struct dirent*, struct dirent**)> real{"readdir_r"};
  int error = 0;
  reading_directory(directory, [&] {
    error = real(directory, entry, result);
    return error == 0 ? *result : nullptr;
  });
  return error;
}

int closedir(DIR* directory) {
  static constinit Real<int(DIR*)> real{"closedir"};
  if (!tracking() || is_null(directory)) return real(directory);
  const int fd = dirfd(directory);
  const millrace::hook::Description* description = describe(fd);
  const NameId file = file_of(description);
  const bool unwanted = ignored(description) || !recording(Level::kPosix);
  note_closed(fd);
  if (unwanted) return real(directory);
  return traced({.call = Call::kClosedir, .file = file}, [&] { return real(directory); });
}

void rewinddir(DIR* directory) {
  static constinit Real<void(DIR*)> real{"rewinddir"};
  on_directory(Call::kRewinddir, directory, [&] { real(directory); });
}

void seekdir(DIR* directory, long place) {
  static constinit Real<void(DIR*, long)> real{"seekdir"};
  on_directory(Call::kSeekdir, directory, [&] { real(directory, place); });
}

long telldir(DIR* directory) {
  static constinit Real<long(DIR*)> real{"telldir"};
  long place = 0;
  on_directory(Call::kTelldir, directory, [&] { place = real(directory); });
  return place;
}

int scandir(const char* path, struct dirent*** list, int (*filter)(const struct dirent*),
            int (*order)(const struct dirent**, const struct dirent**)) {
  static constinit Real<decltype(scandir)> real{"scandir"};
  return on_path(Call::kScandir, path, [&] { return real(path, list, filter, order); });
}

int scandir64(const char* path, struct dirent64*** list, int (*filter)(const struct dirent64*),
              int (*order)(const struct dirent64**, const struct dirent64**)) {
  static constinit Real<decltype(scandir64)> real{"scandir64"};
  return on_path(Call::kScandir, path, [&] { return real(path, list, filter, order); });
}

int scandirat(int directory, const char* path, struct dirent*** list,
              int (*filter)(const struct dirent*),
              int (*order)(const struct dirent**, const struct dirent**)) {
  static constinit Real<decltype(scandirat)> real{"scandirat"};
  return on_path_at(Call::kScandir, directory, path,
                    [&] { return real(directory, path, list, filter, order); });
}

ssize_t getdents64(int fd, void* buffer, size_t size) {
  static constinit Real<ssize_t(int, void*, size_t)> real{"getdents64"};
  return on_range(Call::kGetdents64, fd, {kNoOffset, size}, [&] { return real(fd, buffer, size); });
}

int ftw(const char* path, __ftw_func_t visit, int descriptors) {
  static constinit Real<int(const char*, __ftw_func_t, int)> real{"ftw"};
  return on_path(Call::kFtw, path, [&] { return real(path, visit, descriptors); });
}

int nftw(const char* path, __nftw_func_t visit, int descriptors, int flags) {
  static constinit Real<int(const char*, __nftw_func_t, int, int)> real{"nftw"};
  return on_path(Call::kNftw, path, [&] { return real(path, visit, descriptors, flags); });
}

}  // extern "C"

// Other names of the same calls: for 64-bit files, and internal to the C library. Defined in
// assembly, because headers declare some of them with types of their own, of the same layout.
asm(R"(
  .globl readdir64_r
  .set readdir64_r, readdir_r
  .globl ftw64
  .set ftw64, ftw
  .globl nftw64
  .set nftw64, nftw
)");
