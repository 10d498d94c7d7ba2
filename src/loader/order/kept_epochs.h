// KeptEpochs: tables of the epochs in use, for orders that need one per epoch.
//
// A job that prefetches is in two epochs at once, and tiers look further ahead. A table is made on
// its first use; the least recently used one is dropped for another. Thread-safe. Whoever needs a
// table that another thread is making waits for it; users of other epochs do not wait.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/concurrency/mutex.h"
#include "data/sample.h"

namespace millrace::loader::order {

template <typename Table>
class KeptEpochs {
 public:
  // REQUIRES: capacity > 0
  explicit KeptEpochs(size_t capacity) : capacity_(capacity) {}

  // The table of the epoch, which make() returns if it is not kept. Shared with callers that still
  // use it when it is dropped.
  template <typename Make>
  std::shared_ptr<const Table> find(data::Epoch epoch, Make make) const {
    const std::shared_ptr<Entry> entry = entry_of(epoch);
    std::call_once(entry->is_made, [&] { entry->table = make(); });
    return {entry, &*entry->table};
  }

 private:
  struct Entry {
    data::Epoch epoch{};
    std::once_flag is_made;
    std::optional<Table> table;
  };

  // Moves the entry to the front.
  std::shared_ptr<Entry> entry_of(data::Epoch epoch) const {
    const MutexLock lock(mutex_);
    const auto found = std::ranges::find(entries_, epoch, [](const auto& e) { return e->epoch; });
    if (found != entries_.end()) {
      std::rotate(entries_.begin(), found, found + 1);
    } else {
      auto made = std::make_shared<Entry>();
      made->epoch = epoch;
      if (entries_.size() == capacity_) entries_.pop_back();
      entries_.insert(entries_.begin(), std::move(made));
    }
    return entries_.front();
  }

  size_t capacity_;
  mutable Mutex mutex_;
  // The most recently used first.
  mutable std::vector<std::shared_ptr<Entry>> entries_ GUARDED_BY(mutex_);
};

}  // namespace millrace::loader::order
