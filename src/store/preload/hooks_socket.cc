// Sockets with names below the root: bind creates one, connect and sendto find it.
//
// An address has room for 107 characters. A longer real name is reached through a descriptor of its
// directory.
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "hook/syscall.h"
#include "hook/text.h"
#include "store/preload/hooks.h"

namespace millrace::store {
namespace {

constexpr size_t kNameBegin = offsetof(sockaddr_un, sun_path);

struct SocketName {
  char text[sizeof(sockaddr_un::sun_path) + 1];  // empty: the address has no path
};

SocketName name_of(const sockaddr* address, socklen_t size) {
  SocketName name = {};
  if (!active() || is_bad(address) || size <= kNameBegin || size > sizeof(sockaddr_un)) return name;
  if (address->sa_family != AF_UNIX) return name;
  memcpy(name.text, reinterpret_cast<const char*>(address) + kNameBegin, size - kNameBegin);
  return name;
}

// call(address, size) with the address of a real name, which is absolute.
template <typename Call>
auto with_address(const char* real, Call call) {
  using Result = decltype(call(static_cast<const sockaddr*>(nullptr), socklen_t{}));
  sockaddr_un address = {};
  const std::string_view name = strrchr(real, '/') + 1;
  const size_t above = strlen(real) - name.size();
  const int directory = write_address({real, above - 1}, name, address);
  if (directory < -1) return failure<Result>(-directory);
  const Result result = call(reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  if (directory >= 0) hook::sys_close(directory);
  return result;
}

// call(address, size) for an address that names an existing socket.
template <typename Call>
auto to_socket(const sockaddr* address, socklen_t size, Call call) {
  using Result = decltype(call(address, size));
  const SocketName name = name_of(address, size);
  if (name.text[0] == '\0') return call(address, size);
  return on_path(
      AT_FDCWD, name.text, Last::kFollow, [](uint32_t) { return failure<Result>(ECONNREFUSED); },
      [&](int, const char* other) {
        return other == name.text ? call(address, size) : with_address(other, call);
      });
}

}  // namespace
}  // namespace millrace::store

using namespace millrace::store;

extern "C" {

int bind(int fd, const sockaddr* address, socklen_t size) {
  const auto call = [&](const sockaddr* other, socklen_t other_size) {
    return real_call<bind>(fd, other, other_size);
  };
  const SocketName name = name_of(address, size);
  if (name.text[0] == '\0') return call(address, size);
  const int result = creating_path(AT_FDCWD, name.text, [&](int, const char* other) {
    return other == name.text ? call(address, size) : with_address(other, call);
  });
  if (result != 0 && errno == EEXIST) errno = EADDRINUSE;
  return result;
}

int connect(int fd, const sockaddr* address, socklen_t size) {
  return to_socket(address, size, [&](const sockaddr* other, socklen_t other_size) {
    return real_call<connect>(fd, other, other_size);
  });
}

ssize_t sendto(int fd, const void* bytes, size_t count, int flags, const sockaddr* address,
               socklen_t size) {
  return to_socket(address, size, [&](const sockaddr* other, socklen_t other_size) {
    return real_call<sendto>(fd, bytes, count, flags, other, other_size);
  });
}

}  // extern "C"
