// Calls on descriptors that fast mode does not serve: the descriptor is made real first. And calls
// that make descriptors of other kinds than files.
#include <aio.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/timerfd.h>
#include <sys/xattr.h>
#include <termios.h>
#include <unistd.h>

#include "store/preload/fast.h"
#include "store/preload/hooks.h"

namespace millrace::store {
namespace {

// Descriptors that a call looks at among others. If one cannot be made real, the kernel tells.
template <auto kHook, typename... Rest>
int polling(pollfd* polled, nfds_t count, Rest... rest) {
  if (fast_files.count() != 0 && !is_bad(polled)) {
    const int saved_errno = errno;
    for (nfds_t i = 0; i < count; ++i) make_real(polled[i].fd);
    errno = saved_errno;
  }
  return real_call<kHook>(polled, count, rest...);
}

template <auto kHook, typename... Rest>
int selecting(int count, fd_set* in, fd_set* out, fd_set* other, Rest... rest) {
  const int saved_errno = errno;
  const int end = fast_files.count() == 0 ? 0 : fast_files.highest() + 1;
  for (int fd = 0; fd < count && fd < end && fd < FD_SETSIZE; ++fd) {
    for (const fd_set* set : {in, out, other}) {
      if (!is_bad(set) && FD_ISSET(fd, set)) make_real(fd);
    }
  }
  errno = saved_errno;
  return real_call<kHook>(count, in, out, other, rest...);
}

// Calls use(fd) for the descriptors that a message has.
template <typename Use>
void for_sent(const msghdr* message, Use use) {
  if (is_bad(message) || is_bad(message->msg_control)) return;
  for (cmsghdr* part = CMSG_FIRSTHDR(message); part != nullptr;
       part = CMSG_NXTHDR(const_cast<msghdr*>(message), part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const auto* numbers = reinterpret_cast<const int*>(CMSG_DATA(part));
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) use(numbers[i]);
  }
}

// To another process.
void make_sent_real(const msghdr* message) {
  if (fast_files.count() == 0) return;
  const int saved_errno = errno;
  for_sent(message, make_real);
  errno = saved_errno;
}

template <auto kHook, typename... Arguments>
int making_pair(const int* numbers, Arguments... arguments) {
  int result = real_call<kHook>(arguments...);
  if (result < 0 && errno == EMFILE && close_parked()) result = real_call<kHook>(arguments...);
  if (result == 0 && active()) {
    note_new_number(numbers[0]);
    note_new_number(numbers[1]);
  }
  return result;
}

template <auto kHook, typename... Before>
int transferring(aiocb* request, Before... before) {
  const auto body = [&] { return real_call<kHook>(before..., request); };
  return is_bad(request) ? body() : natively(request->aio_fildes, body);
}

// After fsync: what it means for the buffer is durable when the journal is.
int synced(int fd) {
  if (!active() || !client.has_buffer()) return 0;
  struct stat status;
  if (hook::sys_fstat(fd, &status) != 0) return 0;
  int error = 0;
  if (const uint64_t id = buffered_writers.id_of(fd); id != 0) {
    error = note_synced(client.buffer, id, static_cast<uint64_t>(status.st_size));
  } else if (S_ISDIR(status.st_mode) && (entry_of(fd) != kNoEntry || is_created_directory(fd))) {
    error = sync_names(client.buffer);
  }
  return error < 0 ? failure<int>(-error) : 0;
}

}  // namespace
}  // namespace millrace::store

using namespace millrace::store;

extern "C" {

void* mmap(void* address, size_t size, int protection, int flags, int fd, off_t offset) {
  if ((flags & MAP_ANONYMOUS) == 0 && !make_real(fd)) return MAP_FAILED;
  return real_call<mmap>(address, size, protection, flags, fd, offset);
}

FILE* fdopen(int fd, const char* mode) { return on_real<fdopen>(fd, mode); }
int flock(int fd, int operation) { return on_real<flock>(fd, operation); }
int lockf(int fd, int command, off_t size) { return on_real<lockf>(fd, command, size); }

ssize_t sendfile(int out, int in, off_t* offset, size_t count) {
  return natively(in, [&] {
    return natively(out, [&] { return real_call<sendfile>(out, in, offset, count); });
  });
}

ssize_t copy_file_range(int in, off_t* in_offset, int out, off_t* out_offset, size_t count,
                        unsigned flags) {
  return natively(in, [&] {
    return natively(out, [&] {
      return real_call<copy_file_range>(in, in_offset, out, out_offset, count, flags);
    });
  });
}

ssize_t splice(int in, off_t* in_offset, int out, off_t* out_offset, size_t count, unsigned flags) {
  return on_real<splice>(in, in_offset, out, out_offset, count, flags);
}
ssize_t readahead(int fd, off_t offset, size_t count) {
  return on_real<readahead>(fd, offset, count);
}
int fsync(int fd) { return on_real<fsync>(fd) == 0 ? synced(fd) : -1; }
int fdatasync(int fd) { return on_real<fdatasync>(fd) == 0 ? synced(fd) : -1; }
int syncfs(int fd) { return on_real<syncfs>(fd); }
int ftruncate(int fd, off_t size) { return on_real<ftruncate>(fd, size); }
int fstatfs(int fd, struct statfs* result) { return on_real<fstatfs>(fd, result); }
int fstatvfs(int fd, struct statvfs* result) { return on_real<fstatvfs>(fd, result); }
long fpathconf(int fd, int name) { return on_real<fpathconf>(fd, name); }
ssize_t fgetxattr(int fd, const char* name, void* value, size_t size) {
  return on_real<fgetxattr>(fd, name, value, size);
}
ssize_t flistxattr(int fd, char* list, size_t size) { return on_real<flistxattr>(fd, list, size); }
int tcgetattr(int fd, struct termios* result) { return on_real<tcgetattr>(fd, result); }
int poll(pollfd* polled, nfds_t count, int timeout) {
  return polling<poll>(polled, count, timeout);
}
int __poll_chk(pollfd* polled, nfds_t count, int timeout, size_t room) {
  return polling<__poll_chk>(polled, count, timeout, room);
}
int ppoll(pollfd* polled, nfds_t count, const timespec* timeout, const sigset_t* mask) {
  return polling<ppoll>(polled, count, timeout, mask);
}
int select(int count, fd_set* in, fd_set* out, fd_set* other, timeval* timeout) {
  return selecting<select>(count, in, out, other, timeout);
}

int pselect(int count, fd_set* in, fd_set* out, fd_set* other, const timespec* timeout,
            const sigset_t* mask) {
  return selecting<pselect>(count, in, out, other, timeout, mask);
}

int epoll_ctl(int epoll, int operation, int fd, epoll_event* event) {
  return natively(fd, [&] { return real_call<epoll_ctl>(epoll, operation, fd, event); });
}

ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  make_sent_real(message);
  return real_call<sendmsg>(fd, message, flags);
}

int sendmmsg(int fd, mmsghdr* messages, unsigned count, int flags) {
  for (unsigned i = 0; i < count && !is_bad(messages); ++i) make_sent_real(&messages[i].msg_hdr);
  return real_call<sendmmsg>(fd, messages, count, flags);
}

int aio_read(aiocb* request) { return transferring<aio_read>(request); }
int aio_write(aiocb* request) { return transferring<aio_write>(request); }
int aio_fsync(int operation, aiocb* request) { return transferring<aio_fsync>(request, operation); }

int lio_listio(int mode, aiocb* const requests[], int count, sigevent* event) {
  const int saved_errno = errno;
  for (int i = 0; i < count && !is_bad(requests); ++i) {
    if (!is_bad(requests[i])) make_real(requests[i]->aio_fildes);
  }
  errno = saved_errno;
  return real_call<lio_listio>(mode, requests, count, event);
}

int sync_file_range(int fd, off_t offset, off_t size, unsigned flags) {
  return on_real<sync_file_range>(fd, offset, size, flags);
}
int fallocate(int fd, int mode, off_t offset, off_t size) {
  return on_real<fallocate>(fd, mode, offset, size);
}
int posix_fallocate(int fd, off_t offset, off_t size) {
  return make_real(fd) ? real_call<posix_fallocate>(fd, offset, size) : errno;
}

// Calls that make descriptors of other kinds than files. They are hooked for two reasons. A program
// may have closed a fast descriptor by a raw system call; the kernel then gives its number to one
// of these, and reads must not go on with the file. And a program at the limit of its descriptors
// needs those that fast mode only keeps.

int socket(int domain, int type, int protocol) {
  return new_number<socket>(domain, type, protocol);
}
int accept(int fd, sockaddr* address, socklen_t* size) {
  return new_number<accept>(fd, address, size);
}
int accept4(int fd, sockaddr* address, socklen_t* size, int flags) {
  return new_number<accept4>(fd, address, size, flags);
}
int epoll_create(int size) { return new_number<epoll_create>(size); }
int epoll_create1(int flags) { return new_number<epoll_create1>(flags); }
int eventfd(unsigned value, int flags) { return new_number<eventfd>(value, flags); }
int timerfd_create(int clock, int flags) { return new_number<timerfd_create>(clock, flags); }
int signalfd(int fd, const sigset_t* mask, int flags) {
  return new_number<signalfd>(fd, mask, flags);
}
int inotify_init() { return new_number<inotify_init>(); }
int inotify_init1(int flags) { return new_number<inotify_init1>(flags); }
int memfd_create(const char* name, unsigned flags) { return new_number<memfd_create>(name, flags); }
int posix_openpt(int flags) { return new_number<posix_openpt>(flags); }
int pipe(int numbers[2]) { return making_pair<pipe>(numbers, numbers); }
int pipe2(int numbers[2], int flags) { return making_pair<pipe2>(numbers, numbers, flags); }
int socketpair(int domain, int type, int protocol, int numbers[2]) {
  return making_pair<socketpair>(numbers, domain, type, protocol, numbers);
}

ssize_t recvmsg(int fd, msghdr* message, int flags) {
  const ssize_t result = real_call<recvmsg>(fd, message, flags);
  if (result >= 0 && active()) for_sent(message, note_new_number);
  return result;
}

int recvmmsg(int fd, mmsghdr* messages, unsigned count, int flags, timespec* timeout) {
  const int result = real_call<recvmmsg>(fd, messages, count, flags, timeout);
  for (int i = 0; i < result; ++i) {
    if (active()) for_sent(&messages[i].msg_hdr, note_new_number);
  }
  return result;
}

}  // extern "C"

asm("names_64 mmap, lockf, sendfile, ftruncate, fstatfs, fstatvfs, aio_read, aio_write, aio_fsync, lio_listio, fallocate, posix_fallocate");
