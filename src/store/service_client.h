// ServiceClient: asks the service of a node for files, many at a time.
//
// For our own programs (`store warm`, tests). Other people's programs have the preload library. Not
// thread-safe: each thread has its own.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>

#include "base/file.h"
#include "base/result.h"
#include "wire/store_message.h"

namespace millrace::store {

class ServiceClient {
 public:
  // `node` is the folder of a service.
  static Result<ServiceClient> connect(const std::filesystem::path& node);

  // Sends a request, which `id` identifies. Waits if the service is far behind.
  Status ask(uint64_t id, uint64_t entry,
             wire::StoreRequestKind kind = wire::StoreRequestKind::kMaterialise) const;

  // Asks to save all that programs created.
  Status ask_flush(uint64_t id) const;

  // Announces an order (wire/store_order.h), which the service follows as long as the connection is
  // open.
  Status ask_follow(uint64_t id, uint64_t number) const;

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
  Status send(wire::StoreRequestKind kind, uint64_t id, uint64_t entry) const;

  explicit ServiceClient(File socket) : socket_(std::move(socket)) {}

  File socket_;
};

}  // namespace millrace::store
