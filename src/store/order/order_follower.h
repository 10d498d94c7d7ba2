// OrderFollower: fetches files before the loaders of a node read them, in the order that they gave.
//
// A loader writes its coming reads into a file (wire/store_order.h). Threads copy them to the
// NodeTree, which knows what to fetch and what to remove for it, and make the files. They end with
// this; without orders they sleep. Nothing in the file is believed: wrong numbers cost time only.
// Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <thread>
#include <vector>

#include "base/concurrency/mutex.h"
#include "base/result.h"
#include "store/service/node_tree.h"
#include "wire/store_order.h"

namespace millrace::store {

class OrderFollower {
 public:
  // The tree must live longer.
  OrderFollower(NodeTree& tree, std::filesystem::path node, size_t thread_count);
  ~OrderFollower();

  // Takes the order of a loader, which `owner` identifies from now on. Returns an errno value.
  int follow(const void* owner, uint64_t number);
  // Looks at the progress of the loaders now, before a file is made for one.
  void look();
  // The loader is gone.
  void forget(const void* owner);

 private:
  struct Followed;

  void work();
  void pause(MutexLock& lock, std::chrono::milliseconds duration) REQUIRES(mutex_);
  void copy_all() REQUIRES(mutex_);
  void copy(Followed& order) REQUIRES(mutex_);

  NodeTree& tree_;
  const std::filesystem::path node_;
  const size_t thread_count_;
  std::vector<std::thread> threads_;

  Mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Followed>> orders_ GUARDED_BY(mutex_);
  std::atomic<bool> has_orders_ = false;        // whether orders_ is not empty, without the lock
  bool is_looking_ GUARDED_BY(mutex_) = false;  // one thread looks at the orders; the others sleep
  bool is_stopping_ GUARDED_BY(mutex_) = false;
};

// The name of an order's file in the folder of the node.
std::filesystem::path order_path(const std::filesystem::path& node, uint64_t number);

}  // namespace millrace::store
