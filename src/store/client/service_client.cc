#include "store/client/service_client.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/text/text.h"

namespace millrace::store {
namespace {

struct LibcCalls {
  template <typename Value>
  static Value result(Value value) {
    return value < 0 ? -errno : value;
  }
  static int socket() { return result(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)); }
  static void limit_sending(int fd, const timeval& time) {
    ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof(time));
  }
  static int connect(int fd, const sockaddr_un& address) {
    return result(::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)));
  }
  static long send(int fd, const wire::StoreRequest& request) {
    return result(::send(fd, &request, sizeof(request), MSG_NOSIGNAL));
  }
  static long wait(pollfd& waiting, timespec& time) {
    return result(::ppoll(&waiting, 1, &time, nullptr));
  }
  static long receive(int fd, wire::StoreReply& reply) {
    return result(::recv(fd, &reply, sizeof(reply), MSG_DONTWAIT | MSG_TRUNC));
  }
  static void close(int fd) { ::close(fd); }
};

Error cannot_connect(int os_error, const sockaddr_un& address) {
  return fail_os(os_error, "cannot connect to the store's service")
      .within(printable(address.sun_path));
}

Error cannot_receive(int os_error) {
  if (os_error == ETIMEDOUT) return fail(Errc::kTimeout, "the store's service does not answer");
  if (os_error == EPROTO) {
    return fail(Errc::kCorrupt, "the store's service answered with something else than a reply");
  }
  return fail(Errc::kIo, "the store's service has closed the connection");
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

Status ask_service(ServiceLine& line, const std::filesystem::path& node, uint64_t entry) {
  ASSIGN_OR_RETURN(const sockaddr_un address, socket_address(node));
  const Answer answer = line.ask<LibcCalls>(address, entry, wire::StoreRequestKind::kMaterialise);
  if (answer.error == 0) return {};
  switch (answer.step) {
    case Answer::Step::kSilent:
      return fail(Errc::kTimeout, "the service does not answer");
    case Answer::Step::kConnect:
      return cannot_connect(answer.error, address);
    case Answer::Step::kSend:
      return fail_os(answer.error, "cannot ask the store's service");
    case Answer::Step::kReceive:
      return cannot_receive(answer.error);
    case Answer::Step::kReply:
      break;
  }
  return fail_os(answer.error, "the service cannot make the file");
}

Result<ServiceClient> ServiceClient::connect(const std::filesystem::path& node) {
  ASSIGN_OR_RETURN(const sockaddr_un address, socket_address(node));
  const int socket = connect_service<LibcCalls>(address, 0);
  if (socket < 0) return cannot_connect(-socket, address);
  return ServiceClient(File(socket));
}

void ServiceClient::end() const { ::shutdown(socket_.fd(), SHUT_RDWR); }

Status ServiceClient::ask(uint64_t id, uint64_t entry, wire::StoreRequestKind kind) const {
  const int error = send_request<LibcCalls>(socket_.fd(), store_request(id, entry, kind));
  return error == 0 ? Status() : fail_os(error, "cannot ask the store's service");
}

Result<ServiceClient::Reply> ServiceClient::next(std::chrono::milliseconds patience) const {
  const auto end_ns =
      line_now_ns() + static_cast<uint64_t>(std::chrono::nanoseconds(patience).count());
  wire::StoreReply reply{};
  const int error = receive_reply<LibcCalls>(socket_.fd(), end_ns, reply);
  if (error != 0) return cannot_receive(error);
  return Reply{.id = reply.id, .os_error = reply.error};
}

}  // namespace millrace::store
