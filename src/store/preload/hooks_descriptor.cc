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

// body() makes two descriptors and returns 0.
template <typename Body>
int making_pair(const int* numbers, Body body) {
  int result = body();
  if (result < 0 && errno == EMFILE && close_parked()) result = body();
  if (result == 0 && active()) {
    note_new_number(numbers[0]);
    note_new_number(numbers[1]);
  }
  return result;
}

template <typename Body>
int transferring(const aiocb* request, Body body) {
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
  return real_call<"mmap", mmap>(address, size, protection, flags, fd, offset);
}

FILE* fdopen(int fd, const char* mode) { return on_real<"fdopen", fdopen>(fd, mode); }

int flock(int fd, int operation) { return on_real<"flock", flock>(fd, operation); }

int lockf(int fd, int command, off_t size) { return on_real<"lockf", lockf>(fd, command, size); }

ssize_t sendfile(int out, int in, off_t* offset, size_t count) {
  return natively(in, [&] {
    return natively(out, [&] { return real_call<"sendfile", sendfile>(out, in, offset, count); });
  });
}

ssize_t copy_file_range(int in, off_t* in_offset, int out, off_t* out_offset, size_t count,
                        unsigned flags) {
  return natively(in, [&] {
    return natively(out, [&] {
      return real_call<"copy_file_range", copy_file_range>(in, in_offset, out, out_offset, count,
                                                           flags);
    });
  });
}

ssize_t splice(int in, off_t* in_offset, int out, off_t* out_offset, size_t count, unsigned flags) {
  return on_real<"splice", splice>(in, in_offset, out, out_offset, count, flags);
}

ssize_t readahead(int fd, off_t offset, size_t count) {
  return on_real<"readahead", readahead>(fd, offset, count);
}

int fsync(int fd) {
  const int result = natively(fd, [&] { return real_call<"fsync", fsync>(fd); });
  return result == 0 ? synced(fd) : result;
}

int fdatasync(int fd) {
  const int result = natively(fd, [&] { return real_call<"fdatasync", fdatasync>(fd); });
  return result == 0 ? synced(fd) : result;
}

int syncfs(int fd) { return on_real<"syncfs", syncfs>(fd); }

int ftruncate(int fd, off_t size) { return on_real<"ftruncate", ftruncate>(fd, size); }

int fstatfs(int fd, struct statfs* result) { return on_real<"fstatfs", fstatfs>(fd, result); }

int fstatvfs(int fd, struct statvfs* result) { return on_real<"fstatvfs", fstatvfs>(fd, result); }

long fpathconf(int fd, int name) { return on_real<"fpathconf", fpathconf>(fd, name); }

ssize_t fgetxattr(int fd, const char* name, void* value, size_t size) {
  return on_real<"fgetxattr", fgetxattr>(fd, name, value, size);
}

ssize_t flistxattr(int fd, char* list, size_t size) {
  return on_real<"flistxattr", flistxattr>(fd, list, size);
}

int tcgetattr(int fd, struct termios* result) {
  return on_real<"tcgetattr", tcgetattr>(fd, result);
}

int poll(pollfd* polled, nfds_t count, int timeout) {
  make_polled_real(polled, count);
  return real_call<"poll", poll>(polled, count, timeout);
}

int __poll_chk(pollfd* polled, nfds_t count, int timeout, size_t room) {
  make_polled_real(polled, count);
  return real_call<"__poll_chk", __poll_chk>(polled, count, timeout, room);
}

int ppoll(pollfd* polled, nfds_t count, const timespec* timeout, const sigset_t* mask) {
  make_polled_real(polled, count);
  return real_call<"ppoll", ppoll>(polled, count, timeout, mask);
}

int select(int count, fd_set* in, fd_set* out, fd_set* other, timeval* timeout) {
  for (const fd_set* set : {in, out, other}) make_selected_real(count, set);
  return real_call<"select", select>(count, in, out, other, timeout);
}

int pselect(int count, fd_set* in, fd_set* out, fd_set* other, const timespec* timeout,
            const sigset_t* mask) {
  for (const fd_set* set : {in, out, other}) make_selected_real(count, set);
  return real_call<"pselect", pselect>(count, in, out, other, timeout, mask);
}

int epoll_ctl(int epoll, int operation, int fd, epoll_event* event) {
  return natively(fd,
                  [&] { return real_call<"epoll_ctl", epoll_ctl>(epoll, operation, fd, event); });
}

ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  make_sent_real(message);
  return real_call<"sendmsg", sendmsg>(fd, message, flags);
}

int sendmmsg(int fd, mmsghdr* messages, unsigned count, int flags) {
  for (unsigned i = 0; i < count && !is_bad(messages); ++i) make_sent_real(&messages[i].msg_hdr);
  return real_call<"sendmmsg", sendmmsg>(fd, messages, count, flags);
}

int aio_read(aiocb* request) {
  return transferring(request, [&] { return real_call<"aio_read", aio_read>(request); });
}

int aio_write(aiocb* request) {
  return transferring(request, [&] { return real_call<"aio_write", aio_write>(request); });
}

int aio_fsync(int operation, aiocb* request) {
  return transferring(request,
                      [&] { return real_call<"aio_fsync", aio_fsync>(operation, request); });
}

int lio_listio(int mode, aiocb* const requests[], int count, sigevent* event) {
  const int saved_errno = errno;
  for (int i = 0; i < count && !is_bad(requests); ++i) {
    if (!is_bad(requests[i])) make_real(requests[i]->aio_fildes);
  }
  errno = saved_errno;
  return real_call<"lio_listio", lio_listio>(mode, requests, count, event);
}

int sync_file_range(int fd, off_t offset, off_t size, unsigned flags) {
  return on_real<"sync_file_range", sync_file_range>(fd, offset, size, flags);
}

int fallocate(int fd, int mode, off_t offset, off_t size) {
  return on_real<"fallocate", fallocate>(fd, mode, offset, size);
}

int posix_fallocate(int fd, off_t offset, off_t size) {
  return make_real(fd) ? real_call<"posix_fallocate", posix_fallocate>(fd, offset, size) : errno;
}

// Calls that make descriptors of other kinds than files. They are hooked for two reasons. A program
// may have closed a fast descriptor by a raw system call; the kernel then gives its number to one
// of these, and reads must not go on with the file. And a program at the limit of its descriptors
// needs those that fast mode only keeps.

int socket(int domain, int type, int protocol) {
  return new_number<"socket", socket>(domain, type, protocol);
}

int accept(int fd, sockaddr* address, socklen_t* size) {
  return new_number<"accept", accept>(fd, address, size);
}

int accept4(int fd, sockaddr* address, socklen_t* size, int flags) {
  return new_number<"accept4", accept4>(fd, address, size, flags);
}

int epoll_create(int size) { return new_number<"epoll_create", epoll_create>(size); }

int epoll_create1(int flags) { return new_number<"epoll_create1", epoll_create1>(flags); }

int eventfd(unsigned value, int flags) { return new_number<"eventfd", eventfd>(value, flags); }

int timerfd_create(int clock, int flags) {
  return new_number<"timerfd_create", timerfd_create>(clock, flags);
}

int signalfd(int fd, const sigset_t* mask, int flags) {
  return new_number<"signalfd", signalfd>(fd, mask, flags);
}

int inotify_init() { return new_number<"inotify_init", inotify_init>(); }

int inotify_init1(int flags) { return new_number<"inotify_init1", inotify_init1>(flags); }

int memfd_create(const char* name, unsigned flags) {
  return new_number<"memfd_create", memfd_create>(name, flags);
}

int posix_openpt(int flags) { return new_number<"posix_openpt", posix_openpt>(flags); }

int pipe(int numbers[2]) {
  return making_pair(numbers, [&] { return real_call<"pipe", pipe>(numbers); });
}

int pipe2(int numbers[2], int flags) {
  return making_pair(numbers, [&] { return real_call<"pipe2", pipe2>(numbers, flags); });
}

int socketpair(int domain, int type, int protocol, int numbers[2]) {
  return making_pair(numbers, [&] {
    return real_call<"socketpair", socketpair>(domain, type, protocol, numbers);
  });
}

ssize_t recvmsg(int fd, msghdr* message, int flags) {
  const ssize_t result = real_call<"recvmsg", recvmsg>(fd, message, flags);
  if (result >= 0 && active()) for_sent(message, note_new_number);
  return result;
}

int recvmmsg(int fd, mmsghdr* messages, unsigned count, int flags, timespec* timeout) {
  const int result = real_call<"recvmmsg", recvmmsg>(fd, messages, count, flags, timeout);
  for (int i = 0; i < result; ++i) {
    if (active()) for_sent(&messages[i].msg_hdr, note_new_number);
  }
  return result;
}

}  // extern "C"

asm("names_64 mmap, lockf, sendfile, ftruncate, fstatfs, fstatvfs, aio_read, aio_write, aio_fsync, lio_listio, fallocate, posix_fallocate");
