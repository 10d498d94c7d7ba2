// Flushing to disk, allocating space, and locks.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "trace/preload/hooks/hooks.h"

namespace millrace::trace {
namespace {

// Calls that return an errno value instead of setting errno.
template <typename Body>
int errors_on_range(Call call, int fd, Range range, Body body) {
  if (!recording(Level::kPosix)) return body();
  const hook::Description* description = describe(fd);
  if (ignored(description)) return body();
  const uint64_t begin = now();
  const int error = body();
  record({.call = call,
          .file = file_of(description),
          .offset = range.offset,
          .size = range.size,
          .detail = range.detail},
         {begin, now(), error == 0 ? 0 : -1, error});
  return error;
}

}  // namespace
}  // namespace millrace::trace

using namespace millrace::trace;

extern "C" {

int fsync(int fd) {
  static constinit Real<int(int)> real{"fsync"};
  return on_descriptor(Call::kFsync, fd, [&] { return real(fd); });
}

int fdatasync(int fd) {
  static constinit Real<int(int)> real{"fdatasync"};
  return on_descriptor(Call::kFdatasync, fd, [&] { return real(fd); });
}

int syncfs(int fd) {
  static constinit Real<int(int)> real{"syncfs"};
  return on_descriptor(Call::kSyncfs, fd, [&] { return real(fd); });
}

void sync() {
  static constinit Real<void()> real{"sync"};
  if (!recording(Level::kPosix)) return real();
  traced({.call = Call::kSync}, [&] {
    real();
    return 0;
  });
}

int sync_file_range(int fd, off_t offset, off_t size, unsigned flags) {
  static constinit Real<int(int, off_t, off_t, unsigned)> real{"sync_file_range"};
  return on_range(Call::kSyncFileRange, fd,
                  {static_cast<uint64_t>(offset), static_cast<uint64_t>(size)},
                  [&] { return real(fd, offset, size, flags); });
}

int truncate(const char* path, off_t size) {
  static constinit Real<int(const char*, off_t)> real{"truncate"};
  return on_path(
      Call::kTruncate, path, [&] { return real(path, size); }, static_cast<uint64_t>(size));
}

int ftruncate(int fd, off_t size) {
  static constinit Real<int(int, off_t)> real{"ftruncate"};
  return on_range(Call::kFtruncate, fd, {kNoOffset, static_cast<uint64_t>(size)},
                  [&] { return real(fd, size); });
}

int fallocate(int fd, int mode, off_t offset, off_t size) {
  static constinit Real<int(int, int, off_t, off_t)> real{"fallocate"};
  return on_range(
      Call::kFallocate, fd,
      {static_cast<uint64_t>(offset), static_cast<uint64_t>(size), static_cast<uint32_t>(mode)},
      [&] { return real(fd, mode, offset, size); });
}

int posix_fallocate(int fd, off_t offset, off_t size) {
  static constinit Real<int(int, off_t, off_t)> real{"posix_fallocate"};
  return errors_on_range(Call::kFallocate, fd,
                         {static_cast<uint64_t>(offset), static_cast<uint64_t>(size)},
                         [&] { return real(fd, offset, size); });
}

int posix_fadvise(int fd, off_t offset, off_t size, int advice) {
  static constinit Real<int(int, off_t, off_t, int)> real{"posix_fadvise"};
  return errors_on_range(
      Call::kFadvise, fd,
      {static_cast<uint64_t>(offset), static_cast<uint64_t>(size), static_cast<uint32_t>(advice)},
      [&] { return real(fd, offset, size, advice); });
}

ssize_t readahead(int fd, off_t offset, size_t size) {
  static constinit Real<ssize_t(int, off_t, size_t)> real{"readahead"};
  return on_range(Call::kReadahead, fd, {static_cast<uint64_t>(offset), size},
                  [&] { return real(fd, offset, size); });
}

int flock(int fd, int operation) {
  static constinit Real<int(int, int)> real{"flock"};
  return on_descriptor(
      Call::kFlock, fd, [&] { return real(fd, operation); }, static_cast<uint32_t>(operation));
}

int lockf(int fd, int command, off_t size) {
  static constinit Real<int(int, int, off_t)> real{"lockf"};
  return on_descriptor(
      Call::kLockf, fd, [&] { return real(fd, command, size); }, static_cast<uint32_t>(command));
}

}  // extern "C"

// Other names of the same calls: for 64-bit files, and internal to the C library. Defined in
// assembly, because headers declare some of them with types of their own, of the same layout.
asm(R"(
  .globl truncate64
  .set truncate64, truncate
  .globl ftruncate64
  .set ftruncate64, ftruncate
  .globl fallocate64
  .set fallocate64, fallocate
  .globl posix_fallocate64
  .set posix_fallocate64, posix_fallocate
  .globl posix_fadvise64
  .set posix_fadvise64, posix_fadvise
  .globl lockf64
  .set lockf64, lockf
)");
