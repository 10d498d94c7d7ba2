#include "store/service/ready_sockets.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <cerrno>

namespace millrace::store {
namespace {

bool control(const File& epoll, int operation, int fd, uint32_t events, const void* data) {
  epoll_event event{.events = events, .data = {.ptr = const_cast<void*>(data)}};
  return ::epoll_ctl(epoll.fd(), operation, fd, &event) == 0;
}

}  // namespace

Status ReadySockets::open(int listener) {
  stopper_ = File(::eventfd(0, EFD_CLOEXEC));
  epoll_ = File(::epoll_create1(EPOLL_CLOEXEC));
  if (!stopper_.is_open() || !epoll_.is_open()) return fail_os(errno, "cannot create an epoll");
  // The stopper is level-triggered and never read: it wakes every thread.
  if (control(epoll_, EPOLL_CTL_ADD, stopper_.fd(), EPOLLIN, this) &&
      control(epoll_, EPOLL_CTL_ADD, listener, EPOLLIN | EPOLLEXCLUSIVE, nullptr)) {
    return {};
  }
  return fail_os(errno, "cannot wait for clients");
}

void ReadySockets::stop() const {
  if (stopper_.is_open()) ::eventfd_write(stopper_.fd(), 1);
}

std::optional<void*> ReadySockets::next() const {
  for (;;) {
    epoll_event event{};
    const int count = ::epoll_wait(epoll_.fd(), &event, 1, -1);
    if (count < 0 && errno != EINTR) return std::nullopt;
    if (count <= 0) continue;
    void* const socket = event.data.ptr;
    if (socket == this) return std::nullopt;
    return socket;
  }
}

bool ReadySockets::add(int fd, void* socket) const {
  return control(epoll_, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLONESHOT, socket);
}

void ReadySockets::arm(int fd, void* socket) const {
  control(epoll_, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLONESHOT, socket);
}

void ReadySockets::remove(int fd) const { control(epoll_, EPOLL_CTL_DEL, fd, 0, nullptr); }

}  // namespace millrace::store
