#include "comm/lifeline_socket.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/clock.h"

namespace millrace::comm {
namespace {

constexpr const char* kLoopback = "127.0.0.1";

sockaddr* generic(sockaddr_in& address) { return reinterpret_cast<sockaddr*>(&address); }

// Those that lead to other hosts.
std::vector<std::string> own_addresses() {
  std::vector<std::string> addresses;
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return addresses;
  for (const ifaddrs* one = first; one != nullptr; one = one->ifa_next) {
    const bool leads_out = (one->ifa_flags & IFF_UP) != 0 && (one->ifa_flags & IFF_LOOPBACK) == 0;
    if (!leads_out || one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET) continue;
    sockaddr_in address;
    std::memcpy(&address, one->ifa_addr, sizeof(address));
    char text[INET_ADDRSTRLEN];
    if (inet_ntop(AF_INET, &address.sin_addr, text, sizeof(text)) != nullptr) {
      addresses.emplace_back(text);
    }
  }
  freeifaddrs(first);
  return addresses;
}

// Looks at least once: who was late himself does not miss what has come meanwhile.
Status wait_until(int fd, short events, Deadline deadline, const char* doing) {
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - monotonic_now());
    pollfd wanted = {.fd = fd, .events = events, .revents = 0};
    const int ready = poll(&wanted, 1, static_cast<int>(std::max<int64_t>(left.count(), 0)));
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return fail_os(errno, doing);
    if (left.count() <= 0) return fail(Errc::kTimeout, "{}: no answer in time", doing);
  }
}

// A host that loses power sends no farewell: after 20 s without an answer it counts as gone.
void keep_alive(int fd) {
  const auto set = [fd](int level, int option, int value) {
    static_cast<void>(setsockopt(fd, level, option, &value, sizeof(value)));
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 5);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 20'000);
  set(IPPROTO_TCP, TCP_NODELAY, 1);
}

}  // namespace

Result<Listener> listen_for_ranks(bool only_this_host) {
  Listener listener;
  listener.socket = File(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener.socket.is_open()) return fail_os(errno, "cannot make a TCP socket");
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(only_this_host ? INADDR_LOOPBACK : INADDR_ANY);
  if (bind(listener.socket.fd(), generic(address), sizeof(address)) != 0 ||
      listen(listener.socket.fd(), SOMAXCONN) != 0) {
    return fail_os(errno, "cannot listen on a TCP port");
  }
  socklen_t length = sizeof(address);
  if (getsockname(listener.socket.fd(), generic(address), &length) != 0) {
    return fail_os(errno, "cannot find out the TCP port");
  }
  listener.port = ntohs(address.sin_port);
  if (!only_this_host) listener.addresses = own_addresses();
  listener.addresses.emplace_back(kLoopback);
  return listener;
}

Result<File> accept_rank(const Listener& listener, Deadline deadline) {
  while (true) {
    RETURN_IF_ERROR(wait_until(listener.socket.fd(), POLLIN, deadline, "waiting for a rank"));
    const int fd = accept4(listener.socket.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) {
      keep_alive(fd);
      return File(fd);
    }
    const bool gone_again = errno == EAGAIN || errno == ECONNABORTED || errno == EINTR;
    if (!gone_again) return fail_os(errno, "cannot accept a rank");
  }
}

Result<File> connect_to(const std::string& address_text, uint16_t port, Deadline deadline) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  if (inet_pton(AF_INET, address_text.c_str(), &address.sin_addr) != 1) {
    return fail(Errc::kInvalidArgument, "'{}' is not an address", address_text);
  }
  File made(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!made.is_open()) return fail_os(errno, "cannot make a TCP socket");
  if (connect(made.fd(), generic(address), sizeof(address)) != 0) {
    if (errno != EINPROGRESS) return fail_os(errno, "cannot connect");
    RETURN_IF_ERROR(wait_until(made.fd(), POLLOUT, deadline, "cannot connect"));
    int error = 0;
    socklen_t length = sizeof(error);
    static_cast<void>(getsockopt(made.fd(), SOL_SOCKET, SO_ERROR, &error, &length));
    if (error != 0) return fail_os(error, "cannot connect");
  }
  keep_alive(made.fd());
  return made;
}

Status send_all(const File& socket, ByteView bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes = bytes.subspan(static_cast<size_t>(sent));
    } else if (errno == EAGAIN) {
      RETURN_IF_ERROR(wait_until(socket.fd(), POLLOUT, deadline, "sending to a rank"));
    } else if (errno != EINTR) {
      return fail_os(errno, "sending to a rank");
    }
  }
  return {};
}

Status receive_all(const File& socket, MutableByteView bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t received = recv(socket.fd(), bytes.data(), bytes.size(), 0);
    if (received > 0) {
      bytes = bytes.subspan(static_cast<size_t>(received));
    } else if (received == 0) {
      return fail(Errc::kIo, "receiving from a rank: it closed the connection");
    } else if (errno == EAGAIN) {
      RETURN_IF_ERROR(wait_until(socket.fd(), POLLIN, deadline, "receiving from a rank"));
    } else if (errno != EINTR) {
      return fail_os(errno, "receiving from a rank");
    }
  }
  return {};
}

}  // namespace millrace::comm
