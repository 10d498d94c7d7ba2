// ServiceClient: asks the service of a node for files, many at a time.
//
// For our own programs (`store warm`, tests). Other people's programs have the preload library. Not
// thread-safe: each thread has its own.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>

#include "base/io/file.h"
#include "base/result.h"
#include "store/preload/service_line.h"

namespace millrace::store {

// The address of the service's socket. Fails if the path is too long for one.
Result<sockaddr_un> socket_address(const std::filesystem::path& node);

// Has the service write the file of `entry` into the tree. Fails with kTimeout if it is silent, or
// was so a while ago.
Status ask_service(ServiceLine& line, const std::filesystem::path& node, uint64_t entry);

class ServiceClient {
 public:
  // `node` is the folder of a service.
  static Result<ServiceClient> connect(const std::filesystem::path& node);

  // Sends a request, which `id` identifies. Waits if the service is far behind. For kFollow,
  // `entry` is the number of an order (wire/store_order.h), which the service follows as long as
  // the connection is open.
  Status ask(uint64_t id, uint64_t entry,
             wire::StoreRequestKind kind = wire::StoreRequestKind::kMaterialise) const;

  struct Reply {
    uint64_t id = 0;
    int os_error = 0;  // 0: it is done
  };
  // The next reply to any request. Fails with kTimeout after `patience`, and with kIo if the
  // service has ended.
  Result<Reply> next(std::chrono::milliseconds patience) const;

  // Ends the connection, even if children of fork have copies of it.
  void end() const;

 private:
  explicit ServiceClient(File socket) : socket_(std::move(socket)) {}

  File socket_;
};

}  // namespace millrace::store
