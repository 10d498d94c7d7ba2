// Calls on descriptors that fast mode does not serve: the descriptor is made real first.
#include <aio.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <termios.h>
#include <unistd.h>

#include "store/preload/fast.h"
#include "store/preload/hooks.h"

namespace millrace::store {
namespace {

// Descriptors that a call looks at among others. If one cannot be made real, the kernel tells.
void make_polled_real(pollfd* polled, nfds_t count) {
  if (fast_files.count() == 0 || is_bad(polled)) return;
  const int saved_errno = errno;
  for (nfds_t i = 0; i < count; ++i) make_real(polled[i].fd);
  errno = saved_errno;
}

void make_selected_real(int count, const fd_set* set) {
  if (fast_files.count() == 0 || is_bad(set)) return;
  const int saved_errno = errno;
  for (int fd = 0; fd < count && fd <= fast_files.highest() && fd < FD_SETSIZE; ++fd) {
    if (FD_ISSET(fd, set)) make_real(fd);
  }
  errno = saved_errno;
}

// Descriptors that are sent to another process.
void make_sent_real(const msghdr* message) {
  if (fast_files.count() == 0 || is_bad(message) || is_bad(message->msg_control)) return;
  const int saved_errno = errno;
  for (cmsghdr* part = CMSG_FIRSTHDR(message); part != nullptr;
       part = CMSG_NXTHDR(const_cast<msghdr*>(message), part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const auto* numbers = reinterpret_cast<const int*>(CMSG_DATA(part));
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) make_real(numbers[i]);
  }
  errno = saved_errno;
}

}  // namespace
}  // namespace millrace::store

using namespace millrace::store;

extern "C" {

void* mmap(void* address, size_t size, int protection, int flags, int fd, off_t offset) {
  static constinit Real<void*(void*, size_t, int, int, int, off_t)> real{"mmap"};
  if ((flags & MAP_ANONYMOUS) == 0 && !make_real(fd)) return MAP_FAILED;
  return real(address, size, protection, flags, fd, offset);
}

FILE* fdopen(int fd, const char* mode) {
  static constinit Real<FILE*(int, const char*)> real{"fdopen"};
  return natively(fd, [&] { return real(fd, mode); });
}

int flock(int fd, int operation) {
  static constinit Real<int(int, int)> real{"flock"};
  return natively(fd, [&] { return real(fd, operation); });
}

int lockf(int fd, int command, off_t size) {
  static constinit Real<int(int, int, off_t)> real{"lockf"};
  return natively(fd, [&] { return real(fd, command, size); });
}

ssize_t sendfile(int out, int in, off_t* offset, size_t count) {
  static constinit Real<ssize_t(int, int, off_t*, size_t)> real{"sendfile"};
  return natively(in, [&] { return natively(out, [&] { return real(out, in, offset, count); }); });
}

ssize_t copy_file_range(int in, off_t* in_offset, int out, off_t* out_offset, size_t count,
                        unsigned flags) {
  static constinit Real<ssize_t(int, off_t*, int, off_t*, size_t, unsigned)> real{
      "copy_file_range"};
  return natively(in, [&] {
    return natively(out, [&] { return real(in, in_offset, out, out_offset, count, flags); });
  });
}

ssize_t splice(int in, off_t* in_offset, int out, off_t* out_offset, size_t count, unsigned flags) {
  static constinit Real<ssize_t(int, off_t*, int, off_t*, size_t, unsigned)> real{"splice"};
  return natively(in, [&] { return real(in, in_offset, out, out_offset, count, flags); });
}

ssize_t readahead(int fd, off_t offset, size_t count) {
  static constinit Real<ssize_t(int, off_t, size_t)> real{"readahead"};
  return natively(fd, [&] { return real(fd, offset, count); });
}

int fsync(int fd) {
  static constinit Real<int(int)> real{"fsync"};
  return natively(fd, [&] { return real(fd); });
}

int fdatasync(int fd) {
  static constinit Real<int(int)> real{"fdatasync"};
  return natively(fd, [&] { return real(fd); });
}

int syncfs(int fd) {
  static constinit Real<int(int)> real{"syncfs"};
  return natively(fd, [&] { return real(fd); });
}

int ftruncate(int fd, off_t size) {
  static constinit Real<int(int, off_t)> real{"ftruncate"};
  return natively(fd, [&] { return real(fd, size); });
}

int fstatfs(int fd, struct statfs* result) {
  static constinit Real<int(int, struct statfs*)> real{"fstatfs"};
  return natively(fd, [&] { return real(fd, result); });
}

int fstatvfs(int fd, struct statvfs* result) {
  static constinit Real<int(int, struct statvfs*)> real{"fstatvfs"};
  return natively(fd, [&] { return real(fd, result); });
}

long fpathconf(int fd, int name) {
  static constinit Real<long(int, int)> real{"fpathconf"};
  return natively(fd, [&] { return real(fd, name); });
}

ssize_t fgetxattr(int fd, const char* name, void* value, size_t size) {
  static constinit Real<ssize_t(int, const char*, void*, size_t)> real{"fgetxattr"};
  return natively(fd, [&] { return real(fd, name, value, size); });
}

ssize_t flistxattr(int fd, char* list, size_t size) {
  static constinit Real<ssize_t(int, char*, size_t)> real{"flistxattr"};
  return natively(fd, [&] { return real(fd, list, size); });
}

int tcgetattr(int fd, struct termios* result) {
  static constinit Real<int(int, struct termios*)> real{"tcgetattr"};
  return natively(fd, [&] { return real(fd, result); });
}

int poll(pollfd* polled, nfds_t count, int timeout) {
  static constinit Real<int(pollfd*, nfds_t, int)> real{"poll"};
  make_polled_real(polled, count);
  return real(polled, count, timeout);
}

int __poll_chk(pollfd* polled, nfds_t count, int timeout, size_t room) {
  static constinit Real<int(pollfd*, nfds_t, int, size_t)> real{"__poll_chk"};
  make_polled_real(polled, count);
  return real(polled, count, timeout, room);
}

int ppoll(pollfd* polled, nfds_t count, const timespec* timeout, const sigset_t* mask) {
  static constinit Real<int(pollfd*, nfds_t, const timespec*, const sigset_t*)> real{"ppoll"};
  make_polled_real(polled, count);
  return real(polled, count, timeout, mask);
}

int select(int count, fd_set* in, fd_set* out, fd_set* other, timeval* timeout) {
  static constinit Real<int(int, fd_set*, fd_set*, fd_set*, timeval*)> real{"select"};
  for (const fd_set* set : {in, out, other}) make_selected_real(count, set);
  return real(count, in, out, other, timeout);
}

int pselect(int count, fd_set* in, fd_set* out, fd_set* other, const timespec* timeout,
            const sigset_t* mask) {
  static constinit Real<int(int, fd_set*, fd_set*, fd_set*, const timespec*, const sigset_t*)> real{
      "pselect"};
  for (const fd_set* set : {in, out, other}) make_selected_real(count, set);
  return real(count, in, out, other, timeout, mask);
}

int epoll_ctl(int epoll, int operation, int fd, epoll_event* event) {
  static constinit Real<int(int, int, int, epoll_event*)> real{"epoll_ctl"};
  return natively(fd, [&] { return real(epoll, operation, fd, event); });
}

ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  static constinit Real<ssize_t(int, const msghdr*, int)> real{"sendmsg"};
  make_sent_real(message);
  return real(fd, message, flags);
}

int sendmmsg(int fd, mmsghdr* messages, unsigned count, int flags) {
  static constinit Real<int(int, mmsghdr*, unsigned, int)> real{"sendmmsg"};
  for (unsigned i = 0; i < count && !is_bad(messages); ++i) make_sent_real(&messages[i].msg_hdr);
  return real(fd, messages, count, flags);
}

int aio_read(aiocb* request) {
  static constinit Real<int(aiocb*)> real{"aio_read"};
  if (is_bad(request)) return real(request);
  return natively(request->aio_fildes, [&] { return real(request); });
}

}  // extern "C"

// Other names of the same calls.
asm(R"(
  .globl mmap64
  .set mmap64, mmap
  .globl lockf64
  .set lockf64, lockf
  .globl sendfile64
  .set sendfile64, sendfile
  .globl ftruncate64
  .set ftruncate64, ftruncate
  .globl fstatfs64
  .set fstatfs64, fstatfs
  .globl fstatvfs64
  .set fstatvfs64, fstatvfs
  .globl aio_read64
  .set aio_read64, aio_read
)");
