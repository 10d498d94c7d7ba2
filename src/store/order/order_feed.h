// OrderFeed: tells the service of a node what this process will read, in order.
//
// A thread writes the entries of the coming files into the memory that it shares with the service
// (wire/store_order.h), far ahead of the reads. If the service ends, reads go on without it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "base/result.h"
#include "store/client/service_client.h"
#include "wire/store_order.h"

namespace millrace::store {

class OrderFeed {
 public:
  // The entry of the next read, or wire::kStoreOrderSkip; nullopt: no more are known.
  using NextEntry = std::function<std::optional<uint32_t>()>;

  // `patience` is for the answer of the service. `next` is called on the thread, until the
  // destructor returns.
  static Result<std::unique_ptr<OrderFeed>> start(const std::filesystem::path& node,
                                                  std::chrono::milliseconds patience,
                                                  NextEntry next);
  ~OrderFeed();

  // So many more reads are done. Any thread.
  void finished(uint64_t count);

 private:
  struct Unmap {
    void operator()(wire::StoreOrder* order) const;
  };
  using Shared = std::unique_ptr<wire::StoreOrder, Unmap>;

  OrderFeed(ServiceClient client, Shared shared, NextEntry next);
  static Result<Shared> create(const std::filesystem::path& path);
  static Result<Shared> announce(const ServiceClient& client, const std::filesystem::path& node,
                                 std::chrono::milliseconds patience);
  void run();

  const int pid_;  // a child of fork does not have the thread
  const ServiceClient client_;
  const Shared shared_;
  const NextEntry next_;
  std::atomic<bool> is_stopping_ = false;
  std::thread thread_;
};

}  // namespace millrace::store
