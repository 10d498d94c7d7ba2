// open, close and calls that make descriptors from descriptors.
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "trace/preload/hooks/hooks.h"

namespace millrace::trace {
namespace {

constinit Real<int(const char*, int, ...)> real_open{"open"};
constinit Real<int(int, const char*, int, ...)> real_openat{"openat"};
constinit Real<int(int)> real_close{"close"};

// Flags that say nothing about the I/O.
constexpr int kIrrelevantFlags = O_CLOEXEC | O_NOCTTY;

template <typename Body>
int opening(Call call, int directory, const char* path, int flags, Body body) {
  if (!tracking()) return body();
  const uint64_t begin = now();
  const int fd = body();
  const uint64_t end = now();
  const int error = fd < 0 ? errno : 0;
  const NameId name = intern_path_after(error, directory, path);
  if (fd >= 0) note_opened(fd, name, (flags & O_APPEND) != 0 ? hook::kPositionUnknown : 0);
  if (ignored(name) || !recording(Level::kPosix)) return fd;
  // 64-bit programs have no O_LARGEFILE; the kernel adds it to everything.
  record({.call = call, .file = name, .detail = static_cast<uint32_t>(flags & ~kIrrelevantFlags)},
         {begin, end, fd, error});
  return fd;
}

// A call that duplicates a descriptor: dup and its variants. `body` returns the new descriptor.
template <typename Body>
int duplicating(Call call, int fd, Body body, uint32_t detail = 0) {
  if (!tracking()) return body();
  const hook::Description* description = describe(fd);
  const bool left_out = ignored(description) || !recording(Level::kPosix);
  const NameId file = file_of(description);
  const uint64_t begin = now();
  const int copy = body();
  const uint64_t end = now();
  const int error = copy < 0 ? errno : 0;
  if (copy >= 0) note_duplicated(fd, copy);
  if (!left_out) {
    record({.call = call, .file = file, .detail = detail}, {begin, end, copy, error});
  }
  return copy;
}

// Forgets what the table had under this number: the descriptor is new, and unknown until it is
// used.
int newly_made(int fd) {
  if (fd >= 0 && tracking()) note_closed(fd);
  return fd;
}

mode_t mode_of(int flags, va_list arguments) {
  return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(arguments, mode_t) : 0;
}

template <typename Body>
int making_temporary(char* name_template, Body body) {
  if (!tracking()) return body();
  const uint64_t begin = now();
  const int fd = body();
  const uint64_t end = now();
  const int error = fd < 0 ? errno : 0;
  const NameId name = intern_path(name_template);
  if (fd >= 0) note_opened(fd, name, 0);
  if (!ignored(name) && recording(Level::kPosix)) {
    record({.call = Call::kMkstemp, .file = name}, {begin, end, fd, error});
  }
  return fd;
}

}  // namespace

void find_open_calls() {
  real_open.get();
  real_openat.get();
  real_close.get();
}

}  // namespace millrace::trace

using namespace millrace::trace;

extern "C" {

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return opening(Call::kOpen, AT_FDCWD, path, flags,
                 [&] { return real_open.get()(path, flags, mode); });
}

int __open_2(const char* path, int flags) {
  static constinit Real<int(const char*, int)> real{"__open_2"};
  return opening(Call::kOpen, AT_FDCWD, path, flags, [&] { return real(path, flags); });
}

int openat(int directory, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return opening(Call::kOpenat, directory, path, flags,
                 [&] { return real_openat.get()(directory, path, flags, mode); });
}

int __openat_2(int directory, const char* path, int flags) {
  static constinit Real<int(int, const char*, int)> real{"__openat_2"};
  return opening(Call::kOpenat, directory, path, flags,
                 [&] { return real(directory, path, flags); });
}

int creat(const char* path, mode_t mode) {
  static constinit Real<int(const char*, mode_t)> real{"creat"};
  return opening(Call::kCreat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC,
                 [&] { return real(path, mode); });
}

int open_by_handle_at(int mount, struct file_handle* handle, int flags) {
  static constinit Real<int(int, struct file_handle*, int)> real{"open_by_handle_at"};
  return opening(Call::kOpenByHandleAt, mount, nullptr, flags, [&] {
    const int fd = real(mount, handle, flags);
    newly_made(fd);
    return fd;
  });
}

int shm_open(const char* name, int flags, mode_t mode) {
  static constinit Real<int(const char*, int, mode_t)> real{"shm_open"};
  char path[300] = "/dev/shm/";
  strncat(path, name[0] == '/' ? name + 1 : name, sizeof(path) - 16);
  return opening(Call::kShmOpen, AT_FDCWD, path, flags, [&] { return real(name, flags, mode); });
}

int shm_unlink(const char* name) {
  static constinit Real<int(const char*)> real{"shm_unlink"};
  char path[300] = "/dev/shm/";
  strncat(path, name[0] == '/' ? name + 1 : name, sizeof(path) - 16);
  return on_path(Call::kShmUnlink, path, [&] { return real(name); });
}

int memfd_create(const char* name, unsigned flags) {
  static constinit Real<int(const char*, unsigned)> real{"memfd_create"};
  return opening(Call::kMemfdCreate, AT_FDCWD, "/memfd:", 0, [&] { return real(name, flags); });
}

int mkstemp(char* name) {
  static constinit Real<int(char*)> real{"mkstemp"};
  return making_temporary(name, [&] { return real(name); });
}

int mkostemp(char* name, int flags) {
  static constinit Real<int(char*, int)> real{"mkostemp"};
  return making_temporary(name, [&] { return real(name, flags); });
}

int mkstemps(char* name, int suffix) {
  static constinit Real<int(char*, int)> real{"mkstemps"};
  return making_temporary(name, [&] { return real(name, suffix); });
}

int mkostemps(char* name, int suffix, int flags) {
  static constinit Real<int(char*, int, int)> real{"mkostemps"};
  return making_temporary(name, [&] { return real(name, suffix, flags); });
}

int close(int fd) {
  if (!tracking()) return real_close(fd);
  // Not describe(): programs close thousands of numbers that were never open.
  const millrace::hook::Description* description = recorder.descriptors.find(fd);
  const bool unwanted =
      description == nullptr ? recorder.settings.include[0] != '\0' : description->ignored();
  const NameId file = file_of(description);
  // Before the call: afterwards another thread may already have opened a file under this number.
  note_closed(fd);
  if (unwanted || !recording(Level::kPosix)) return real_close(fd);
  return traced({.call = Call::kClose, .file = file}, [&] { return real_close(fd); });
}

int close_range(unsigned first, unsigned last, int flags) {
  static constinit Real<int(unsigned, unsigned, int)> real{"close_range"};
  if (!tracking()) return real(first, last, flags);
  if (!writer.in_vfork && (static_cast<unsigned>(flags) & CLOSE_RANGE_CLOEXEC) == 0) {
    recorder.descriptors.closed_range(first, last);
  }
  if (!recording(Level::kPosix)) return real(first, last, flags);
  return traced({.call = Call::kCloseRange, .offset = first, .size = 0},
                [&] { return real(first, last, flags); });
}

void closefrom(int first) {
  static constinit Real<void(int)> real{"closefrom"};
  if (!tracking()) return real(first);
  if (!writer.in_vfork) recorder.descriptors.closed_range(static_cast<unsigned>(first), ~0u);
  if (!recording(Level::kPosix)) return real(first);
  traced({.call = Call::kCloseRange, .offset = static_cast<uint64_t>(first)}, [&] {
    real(first);
    return 0;
  });
}

int dup(int fd) {
  static constinit Real<int(int)> real{"dup"};
  return duplicating(Call::kDup, fd, [&] { return real(fd); });
}

int dup2(int fd, int copy) {
  static constinit Real<int(int, int)> real{"dup2"};
  return duplicating(Call::kDup2, fd, [&] { return real(fd, copy); });
}

int dup3(int fd, int copy, int flags) {
  static constinit Real<int(int, int, int)> real{"dup3"};
  return duplicating(Call::kDup3, fd, [&] { return real(fd, copy, flags); });
}

int fcntl(int fd, int command, ...) {
  static constinit Real<int(int, int, ...)> real{"fcntl"};
  va_list arguments;
  va_start(arguments, command);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  const auto body = [&] { return real.get()(fd, command, argument); };
  const auto detail = static_cast<uint32_t>(command);
  switch (command) {
    case F_DUPFD:
    case F_DUPFD_CLOEXEC:
      return duplicating(Call::kFcntl, fd, body, detail);
    case F_SETLK:
    case F_SETLKW:
    case F_OFD_SETLK:
    case F_OFD_SETLKW:
      return on_descriptor(Call::kFcntl, fd, body, detail);
    case F_SETFL:
      if ((reinterpret_cast<intptr_t>(argument) & O_APPEND) != 0 && recording(Level::kPosix)) {
        millrace::hook::Description* description = describe(fd);
        if (description != nullptr) {
          description->flags.fetch_or(millrace::hook::kPositionUnknown);
        }
      }
      return body();
    default:
      return body();
  }
}

// Not recorded: these make descriptors that are not files, under numbers that files had before.

int pipe(int fds[2]) {
  static constinit Real<int(int[2])> real{"pipe"};
  const int result = real(fds);
  if (result == 0) newly_made(fds[0]), newly_made(fds[1]);
  return result;
}

int pipe2(int fds[2], int flags) {
  static constinit Real<int(int[2], int)> real{"pipe2"};
  const int result = real(fds, flags);
  if (result == 0) newly_made(fds[0]), newly_made(fds[1]);
  return result;
}

int socket(int domain, int type, int protocol) {
  static constinit Real<int(int, int, int)> real{"socket"};
  return newly_made(real(domain, type, protocol));
}

int socketpair(int domain, int type, int protocol, int fds[2]) {
  static constinit Real<int(int, int, int, int*)> real{"socketpair"};
  const int result = real(domain, type, protocol, &fds[0]);
  if (result == 0) newly_made(fds[0]), newly_made(fds[1]);
  return result;
}

int accept(int fd, struct sockaddr* address, socklen_t* size) {
  static constinit Real<int(int, struct sockaddr*, socklen_t*)> real{"accept"};
  return newly_made(real(fd, address, size));
}

int accept4(int fd, struct sockaddr* address, socklen_t* size, int flags) {
  static constinit Real<int(int, struct sockaddr*, socklen_t*, int)> real{"accept4"};
  return newly_made(real(fd, address, size, flags));
}

int eventfd(unsigned value, int flags) {
  static constinit Real<int(unsigned, int)> real{"eventfd"};
  return newly_made(real(value, flags));
}

int epoll_create(int size) {
  static constinit Real<int(int)> real{"epoll_create"};
  return newly_made(real(size));
}

int epoll_create1(int flags) {
  static constinit Real<int(int)> real{"epoll_create1"};
  return newly_made(real(flags));
}

int timerfd_create(clockid_t clock, int flags) {
  static constinit Real<int(clockid_t, int)> real{"timerfd_create"};
  return newly_made(real(clock, flags));
}

int signalfd(int fd, const sigset_t* mask, int flags) {
  static constinit Real<int(int, const sigset_t*, int)> real{"signalfd"};
  return newly_made(real(fd, mask, flags));
}

int inotify_init1(int flags) {
  static constinit Real<int(int)> real{"inotify_init1"};
  return newly_made(real(flags));
}

}  // extern "C"

// Other names of the same calls: for 64-bit files, and internal to the C library. Defined in
// assembly, because headers declare some of them with types of their own, of the same layout.
asm(R"(
  .globl open64
  .set open64, open
  .globl __open
  .set __open, open
  .globl __open64
  .set __open64, open
  .globl __open64_2
  .set __open64_2, __open_2
  .globl openat64
  .set openat64, openat
  .globl __openat64_2
  .set __openat64_2, __openat_2
  .globl creat64
  .set creat64, creat
  .globl mkstemp64
  .set mkstemp64, mkstemp
  .globl mkostemp64
  .set mkostemp64, mkostemp
  .globl mkstemps64
  .set mkstemps64, mkstemps
  .globl mkostemps64
  .set mkostemps64, mkostemps
  .globl __close
  .set __close, close
  .globl __dup2
  .set __dup2, dup2
  .globl fcntl64
  .set fcntl64, fcntl
  .globl __fcntl
  .set __fcntl, fcntl
)");
