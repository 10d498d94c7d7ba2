// Calls that make descriptors of other kinds than files.
//
// They are hooked for two reasons. A program may have closed a fast descriptor by a raw system
// call; the kernel then gives its number to one of these, and reads must not go on with the file.
// And a program at the limit of its descriptors needs those that fast mode only keeps.
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "store/preload/fast.h"
#include "store/preload/hooks.h"

namespace millrace::store {
namespace {

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

// Descriptors that another process has sent.
void note_received(const msghdr* message) {
  if (!active()) return;
  for (cmsghdr* part = CMSG_FIRSTHDR(message); part != nullptr;
       part = CMSG_NXTHDR(const_cast<msghdr*>(message), part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const auto* numbers = reinterpret_cast<const int*>(CMSG_DATA(part));
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) note_new_number(numbers[i]);
  }
}

}  // namespace
}  // namespace millrace::store

using namespace millrace::store;

extern "C" {

int socket(int domain, int type, int protocol) {
  static constinit Real<int(int, int, int)> real{"socket"};
  return making_number([&] { return real(domain, type, protocol); });
}

int accept(int fd, sockaddr* address, socklen_t* size) {
  static constinit Real<int(int, sockaddr*, socklen_t*)> real{"accept"};
  return making_number([&] { return real(fd, address, size); });
}

int accept4(int fd, sockaddr* address, socklen_t* size, int flags) {
  static constinit Real<int(int, sockaddr*, socklen_t*, int)> real{"accept4"};
  return making_number([&] { return real(fd, address, size, flags); });
}

int epoll_create(int size) {
  static constinit Real<int(int)> real{"epoll_create"};
  return making_number([&] { return real(size); });
}

int epoll_create1(int flags) {
  static constinit Real<int(int)> real{"epoll_create1"};
  return making_number([&] { return real(flags); });
}

int eventfd(unsigned value, int flags) {
  static constinit Real<int(unsigned, int)> real{"eventfd"};
  return making_number([&] { return real(value, flags); });
}

int timerfd_create(int clock, int flags) {
  static constinit Real<int(int, int)> real{"timerfd_create"};
  return making_number([&] { return real(clock, flags); });
}

int signalfd(int fd, const sigset_t* mask, int flags) {
  static constinit Real<int(int, const sigset_t*, int)> real{"signalfd"};
  return making_number([&] { return real(fd, mask, flags); });
}

int inotify_init() {
  static constinit Real<int()> real{"inotify_init"};
  return making_number([&] { return real(); });
}

int inotify_init1(int flags) {
  static constinit Real<int(int)> real{"inotify_init1"};
  return making_number([&] { return real(flags); });
}

int memfd_create(const char* name, unsigned flags) {
  static constinit Real<int(const char*, unsigned)> real{"memfd_create"};
  return making_number([&] { return real(name, flags); });
}

int posix_openpt(int flags) {
  static constinit Real<int(int)> real{"posix_openpt"};
  return making_number([&] { return real(flags); });
}

int pipe(int numbers[2]) {
  static constinit Real<int(int*)> real{"pipe"};
  return making_pair(numbers, [&] { return real(numbers); });
}

int pipe2(int numbers[2], int flags) {
  static constinit Real<int(int*, int)> real{"pipe2"};
  return making_pair(numbers, [&] { return real(numbers, flags); });
}

int socketpair(int domain, int type, int protocol, int numbers[2]) {
  static constinit Real<int(int, int, int, int*)> real{"socketpair"};
  return making_pair(numbers, [&] { return real(domain, type, protocol, numbers); });
}

ssize_t recvmsg(int fd, msghdr* message, int flags) {
  static constinit Real<ssize_t(int, msghdr*, int)> real{"recvmsg"};
  const ssize_t result = real(fd, message, flags);
  if (result >= 0) note_received(message);
  return result;
}

int recvmmsg(int fd, mmsghdr* messages, unsigned count, int flags, timespec* timeout) {
  static constinit Real<int(int, mmsghdr*, unsigned, int, timespec*)> real{"recvmmsg"};
  const int result = real(fd, messages, count, flags, timeout);
  for (int i = 0; i < result; ++i) note_received(&messages[i].msg_hdr);
  return result;
}

}  // extern "C"
