#include "trace/preload/file_access.h"

#include <errno.h>
#include <sys/stat.h>

#include <cstring>

#include "hook/own_descriptors.h"
#include "hook/syscall.h"
#include "trace/preload/text.h"

namespace millrace::trace {
namespace {

using hook::sys_close;
using hook::sys_open;

constexpr unsigned kOwnerOnly = 0600;  // command lines and file names are private to the user

// Whether a new file next to `path` would belong to `owner`. Some file servers give all files to
// one user; there, a user's own files have another owner than the user.
bool would_belong_to(uid_t owner, const char* path) {
  const size_t size = std::strlen(path) + 40;
  auto* probe = static_cast<char*>(__builtin_alloca(size));
  Text(probe, size).add(path).add(".probe-").add(hook::sys_gettid());
  const int fd = sys_open(probe, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, kOwnerOnly);
  if (fd < 0) return false;
  struct stat info;
  const bool is_same = hook::sys_fstat(fd, &info) == 0 && info.st_uid == owner;
  sys_close(fd);
  hook::sys_unlink(probe);
  return is_same;
}

// Runs `attempt`, which returns 0 or an errno value. If no descriptor was free, runs it again with
// descriptors of its own.
template <typename Attempt>
int with_descriptor(Attempt attempt) {
  const hook::SignalsBlocked blocked;  // no signal handler may run while our descriptor is open
  int error = attempt();
  if (error != EMFILE) return error;
  struct Context {
    Attempt* attempt;
    int* error;
  } context{&attempt, &error};
  hook::with_own_descriptors(
      [](void* argument) {
        auto* work = static_cast<Context*>(argument);
        *work->error = (*work->attempt)();
      },
      &context);
  return error;
}

// Allocates space for the range, so that writing through a mapping cannot fail. On file systems
// without fallocate, appends zeros until the file ends after the range. It appends because another
// process may have made the space, and written to it, in the meantime.
// REQUIRES: `fd` is open for appending.
int allocate(int fd, uint64_t offset, size_t size) {
  if (offset + size > hook::sys_file_bytes_max()) return EFBIG;
  const int result = hook::sys_fallocate(fd, offset, size);
  if (result != -EOPNOTSUPP && result != -ENOSYS) return -result;
  static constexpr char kZeros[4096] = {};
  while (true) {
    const long end = hook::sys_lseek(fd, 0, SEEK_END);
    if (end < 0) return static_cast<int>(-end);
    const auto have = static_cast<uint64_t>(end);
    if (have >= offset + size) return 0;
    const uint64_t left = offset + size - have;
    const long written = hook::sys_write(fd, kZeros, left < sizeof(kZeros) ? left : sizeof(kZeros));
    if (written < 0 && written != -EINTR) return static_cast<int>(-written);
    if (written == 0) return ENOSPC;
  }
}

int write_all(int fd, const void* data, size_t size) {
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    const long written = hook::sys_write(fd, at, size);
    if (written == -EINTR) continue;
    if (written < 0) return static_cast<int>(-written);
    if (written == 0) return ENOSPC;
    at += written;
    size -= static_cast<size_t>(written);
  }
  return 0;
}

}  // namespace

bool is_own_file(int fd, const char* path) {
  struct stat info;
  if (hook::sys_fstat(fd, &info) != 0) return false;
  return info.st_uid == hook::sys_geteuid() || would_belong_to(info.st_uid, path);
}

void* map_file(const MapRequest& request, int* error) {
  void* memory = nullptr;
  const auto attempt = [&] {
    const int flags =
        O_RDWR | O_APPEND | (request.create ? O_CREAT : 0) | (request.exclusive ? O_EXCL : 0);
    const int fd = sys_open(request.path, flags | O_NOFOLLOW, kOwnerOnly);
    if (fd < 0) return -fd;
    const bool is_own = request.exclusive || is_own_file(fd, request.path);
    int result = is_own ? allocate(fd, request.offset, request.size) : EACCES;
    if (result == 0) {
      memory = hook::sys_mmap(request.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, request.offset,
                              &result);
      // Otherwise the first access to a page would make the kernel read ahead, that is, clear pages
      // that a short process never uses.
      if (memory != nullptr) hook::sys_madvise(memory, request.size, MADV_RANDOM);
    }
    sys_close(fd);
    if (result != 0 && request.exclusive) hook::sys_unlink(request.path);
    return result;
  };
  *error = with_descriptor(attempt);
  return memory;
}

int append_file(const char* path, const void* data, size_t size, Turn& turn, uint32_t thread) {
  return with_descriptor([&] {
    const int fd = sys_open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, kOwnerOnly);
    if (fd < 0) return -fd;
    turn.take(thread);
    // If the disk is full, remove what was written: the next chunk of the log must begin where a
    // reader expects it.
    const long end = hook::sys_lseek(fd, 0, SEEK_END);
    const bool fits = end < 0 || static_cast<uint64_t>(end) + size <= hook::sys_file_bytes_max();
    const int result = fits ? write_all(fd, data, size) : EFBIG;
    if (result != 0 && end >= 0) hook::sys_ftruncate(fd, static_cast<uint64_t>(end));
    turn.leave(thread);
    sys_close(fd);
    return result;
  });
}

int write_new_file(const char* path, const void* data, size_t size) {
  return with_descriptor([&] {
    const int fd = sys_open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, kOwnerOnly);
    if (fd < 0) return -fd;
    const int result = size <= hook::sys_file_bytes_max() ? write_all(fd, data, size) : EFBIG;
    sys_close(fd);
    if (result != 0) hook::sys_unlink(path);
    return result;
  });
}

long read_start(const char* path, void* buffer, size_t size) {
  long count = 0;
  const int error = with_descriptor([&] {
    const int fd = sys_open(path, O_RDONLY);
    if (fd < 0) return -fd;
    count = hook::sys_read(fd, buffer, size);
    sys_close(fd);
    return count < 0 ? static_cast<int>(-count) : 0;
  });
  return error != 0 ? -error : count;
}

}  // namespace millrace::trace
