#include "store/client/service_client.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/system/clock.h"
#include "base/text/text.h"
#include "wire/store_state.h"

namespace millrace::store {
namespace {

// ppoll, not poll: if a stopped program continues, the kernel gives ppoll the rest of its time, but
// poll a time that has passed. The service was stopped with it, and could not answer.
Status wait_until_readable(const File& socket, std::chrono::nanoseconds patience) {
  const auto end = monotonic_now() + patience;
  for (auto left = patience;; left = std::max(end - monotonic_now(), std::chrono::nanoseconds(0))) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
    const timespec time{.tv_sec = seconds.count(), .tv_nsec = (left - seconds).count()};
    pollfd waiting{.fd = socket.fd(), .events = POLLIN, .revents = 0};
    const int ready = ::ppoll(&waiting, 1, &time, nullptr);
    if (ready > 0) return {};
    if (ready == 0) return fail(Errc::kTimeout, "the store's service does not answer");
    if (errno != EINTR) return fail_os(errno, "cannot wait for the store's service");
  }
}

}  // namespace

Result<sockaddr_un> socket_address(const std::filesystem::path& node) {
  const std::string path = (node / wire::kStoreSocketFile).string();
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return fail(Errc::kInvalidArgument,
                "{}: the path of a socket has at most {} bytes; choose a shorter --local",
                printable(path), sizeof(address.sun_path) - 1);
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

Result<ServiceClient> ServiceClient::connect(const std::filesystem::path& node) {
  ASSIGN_OR_RETURN(const sockaddr_un address, socket_address(node));
  File socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!socket.is_open()) return fail_os(errno, "cannot create a socket");
  if (::connect(socket.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return fail_os(errno, "cannot connect to the store's service")
        .within(printable(address.sun_path));
  }
  return ServiceClient(std::move(socket));
}

void ServiceClient::end() const { ::shutdown(socket_.fd(), SHUT_RDWR); }

Status ServiceClient::ask(uint64_t id, uint64_t entry, wire::StoreRequestKind kind) const {
  const wire::StoreRequest request{.magic = wire::kStoreMessageMagic,
                                   .version = wire::kStoreMessageVersion,
                                   .kind = kind,
                                   .id = id,
                                   .entry = entry};
  ssize_t sent = 0;
  do {
    sent = ::send(socket_.fd(), &request, sizeof(request), MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent == sizeof(request)) return {};
  return fail_os(errno, "cannot ask the store's service");
}

Result<ServiceClient::Reply> ServiceClient::next(std::chrono::milliseconds patience) const {
  RETURN_IF_ERROR(wait_until_readable(socket_, patience));
  wire::StoreReply reply{};
  const ssize_t size = ::recv(socket_.fd(), &reply, sizeof(reply), MSG_TRUNC);
  if (size <= 0) return fail(Errc::kIo, "the store's service has closed the connection");
  if (size != sizeof(reply) || reply.magic != wire::kStoreMessageMagic ||
      reply.version != wire::kStoreMessageVersion) {
    return fail(Errc::kCorrupt, "the store's service answered with something else than a reply");
  }
  return Reply{.id = reply.id, .os_error = reply.error};
}

}  // namespace millrace::store
