#include "comm/lifeline/socket.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "base/system/clock.h"
#include "base/text/text.h"

namespace millrace::comm {
namespace {

constexpr const char* kLoopback = "127.0.0.1";

sockaddr* generic(sockaddr_in& address) { return reinterpret_cast<sockaddr*>(&address); }

// An IPv4 address of this host.
struct HostAddress {
  std::string interface;
  std::string text;
  uint32_t number = 0;  // its most significant byte is the first of the text
  bool is_loopback = false;
};

std::vector<HostAddress> host_addresses() {
  std::vector<HostAddress> addresses;
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return addresses;
  for (const ifaddrs* one = first; one != nullptr; one = one->ifa_next) {
    const bool is_up = (one->ifa_flags & IFF_UP) != 0;
    if (!is_up || one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET) continue;
    sockaddr_in address;
    std::memcpy(&address, one->ifa_addr, sizeof(address));
    char text[INET_ADDRSTRLEN];
    if (inet_ntop(AF_INET, &address.sin_addr, text, sizeof(text)) == nullptr) continue;
    addresses.push_back({.interface = one->ifa_name,
                         .text = text,
                         .number = ntohl(address.sin_addr.s_addr),
                         .is_loopback = (one->ifa_flags & IFF_LOOPBACK) != 0});
  }
  freeifaddrs(first);
  return addresses;
}

// "10.1.0.0/16", or an address alone.
struct Network {
  uint32_t number = 0;
  uint32_t mask = 0;

  bool has(uint32_t address) const { return (address & mask) == (number & mask); }
};

std::optional<Network> read_network(const std::string& text) {
  const size_t slash = text.find('/');
  in_addr address;
  if (inet_pton(AF_INET, text.substr(0, slash).c_str(), &address) != 1) return std::nullopt;
  uint32_t bits = 32;
  if (slash != std::string::npos) {
    const char* const end = text.data() + text.size();
    const auto [at, error] = std::from_chars(text.data() + slash + 1, end, bits);
    if (error != std::errc() || at != end || bits > 32) return std::nullopt;
  }
  const uint32_t mask = bits == 0 ? 0 : ~uint32_t{0} << (32 - bits);
  return Network{.number = ntohl(address.s_addr), .mask = mask};
}

// The first address, if an interface or a network has several: one is enough.
Result<HostAddress> find_address(const std::string& interface) {
  const std::vector<HostAddress> addresses = host_addresses();
  const std::optional<Network> network = read_network(interface);
  std::string all;
  for (const HostAddress& address : addresses) {
    if (address.interface == interface || (network && network->has(address.number))) return address;
    all += fmt::format("{}{} {}", all.empty() ? "" : ", ", address.interface, address.text);
  }
  return fail(Errc::kInvalidArgument,
              "MILLRACE_INTERFACE={} is neither an interface of rank 0's host nor a network that "
              "contains one of its IPv4 addresses ({}); set it to one of these, for example ib0 or "
              "10.1.0.0/16",
              printable(interface), all.empty() ? "it has none" : all);
}

// Polls at least once, so that a late caller does not miss what arrived meanwhile.
Status wait_until(int fd, short events, Deadline deadline, const char* doing) {
  while (true) {
    const int timeout_ms = poll_timeout_ms_until(deadline);
    pollfd wanted = {.fd = fd, .events = events, .revents = 0};
    const int ready = poll(&wanted, 1, timeout_ms);
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return fail_os(errno, doing);
    if (timeout_ms == 0) return fail(Errc::kTimeout, "{}: no answer in time", doing);
  }
}

// A host that loses power closes no connection: it counts as gone after 20 s without an answer.
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

OwnFile make_socket() {
  const NoFork no_fork;
  return OwnFile(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), no_fork);
}

Result<Listener> listen_at(uint32_t number) {
  Listener listener{.socket = make_socket()};
  if (!listener.socket.is_open()) return fail_os(errno, "cannot create a TCP socket");
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(number);
  if (bind(listener.socket.fd(), generic(address), sizeof(address)) != 0 ||
      listen(listener.socket.fd(), SOMAXCONN) != 0) {
    return fail_os(errno, "cannot listen on a TCP port");
  }
  socklen_t length = sizeof(address);
  if (getsockname(listener.socket.fd(), generic(address), &length) != 0) {
    return fail_os(errno, "cannot find out the TCP port");
  }
  listener.port = ntohs(address.sin_port);
  return listener;
}

}  // namespace

int poll_timeout_ms_until(Deadline deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - monotonic_now());
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1'000'000'000));
}

Result<Listener> listen_for_ranks(const ListenOptions& options) {
  if (options.only_this_host) {
    ASSIGN_OR_RETURN(Listener listener, listen_at(INADDR_LOOPBACK));
    listener.addresses.emplace_back(kLoopback);
    return listener;
  }
  if (!options.interface.empty()) {
    ASSIGN_OR_RETURN(const HostAddress address, find_address(options.interface));
    ASSIGN_OR_RETURN(Listener listener, listen_at(address.number));
    listener.addresses.push_back(address.text);
    return listener;
  }
  // It is not known here which interface leads to the other hosts.
  ASSIGN_OR_RETURN(Listener listener, listen_at(INADDR_ANY));
  for (const HostAddress& address : host_addresses()) {
    if (!address.is_loopback) listener.addresses.push_back(address.text);
  }
  listener.addresses.emplace_back(kLoopback);  // for the ranks of this host
  return listener;
}

Result<std::optional<OwnFile>> accept_next(const Listener& listener) {
  const NoFork no_fork;
  const int fd = accept4(listener.socket.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd >= 0) {
    keep_alive(fd);
    return std::optional(OwnFile(fd, no_fork));
  }
  const bool none_pending = errno == EAGAIN || errno == ECONNABORTED || errno == EINTR;
  if (!none_pending) return fail_os(errno, "cannot accept a rank");
  return std::optional<OwnFile>();
}

Result<OwnFile> begin_connect(const std::string& address_text, uint16_t port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  if (inet_pton(AF_INET, address_text.c_str(), &address.sin_addr) != 1) {
    return fail(Errc::kInvalidArgument, "'{}' is not an address", printable(address_text));
  }
  OwnFile made = make_socket();
  if (!made.is_open()) return fail_os(errno, "cannot create a TCP socket");
  keep_alive(made.fd());
  if (connect(made.fd(), generic(address), sizeof(address)) != 0 && errno != EINPROGRESS) {
    return fail_os(errno, "cannot connect");
  }
  return made;
}

Status finish_connect(const OwnFile& socket) {
  int error = 0;
  socklen_t length = sizeof(error);
  static_cast<void>(getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &length));
  if (error != 0) return fail_os(error, "cannot connect");
  return {};
}

Status send_all(const OwnFile& socket, ByteView bytes, Deadline deadline) {
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

Status receive_some(const OwnFile& socket, std::string& inbox, size_t size_bytes) {
  while (inbox.size() < size_bytes) {
    char buffer[4096];
    const size_t wanted = std::min(sizeof(buffer), size_bytes - inbox.size());
    const ssize_t received = recv(socket.fd(), buffer, wanted, 0);
    if (received > 0) {
      inbox.append(buffer, static_cast<size_t>(received));
    } else if (received == 0) {
      return fail(Errc::kIo, "receiving from a rank: it closed the connection");
    } else if (errno == EAGAIN) {
      return {};
    } else if (errno == ETIMEDOUT || errno == EHOSTUNREACH || errno == ENETUNREACH) {
      return fail(Errc::kTimeout, "receiving from a rank: its host does not answer");
    } else if (errno != EINTR) {
      return fail_os(errno, "receiving from a rank");
    }
  }
  return {};
}

}  // namespace millrace::comm
