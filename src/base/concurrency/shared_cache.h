// SharedCache: values that are expensive to make, kept by key up to a number of bytes.
//
// If several threads ask for a value at once, one makes it and the others wait. The least recently
// used ones are dropped; who still uses one keeps it alive. An error is not kept: the next request
// tries again. Thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <unordered_map>
#include <utility>

#include "base/concurrency/mutex.h"
#include "base/result.h"

namespace millrace {

// Value has memory_bytes().
template <typename Value>
class SharedCache {
 public:
  using Pointer = std::shared_ptr<const Value>;  // shared by the cache and those who use it
  using Make = std::function<Result<Value>(uint64_t key)>;

  SharedCache(uint64_t capacity_bytes, Make make)
      : capacity_bytes_(capacity_bytes), make_(std::move(make)) {}

  Result<Pointer> get(uint64_t key) {
    {
      MutexLock lock(mutex_);
      for (auto found = entries_.find(key); found != entries_.end(); found = entries_.find(key)) {
        if (found->second.value) {
          recent_.splice(recent_.begin(), recent_, found->second.place);
          return found->second.value;
        }
        made_.wait(lock);
      }
      entries_[key];  // without a value: it is being made
    }
    return make(key);
  }

  // Whether it is there or being made.
  bool contains(uint64_t key) const {
    const MutexLock lock(mutex_);
    return entries_.contains(key);
  }

 private:
  struct Entry {
    Pointer value;
    std::list<uint64_t>::iterator place;
  };

  Result<Pointer> make(uint64_t key) {
    // Other threads wait for the entry, so it must go even if there is an exception.
    struct Unfinished {
      SharedCache& cache;
      uint64_t key;
      bool is_done = false;
      ~Unfinished() {
        if (!is_done) cache.forget(key);
      }
    } unfinished{*this, key};
    ASSIGN_OR_RETURN(Value value, make_(key));
    const auto made = std::make_shared<const Value>(std::move(value));
    unfinished.is_done = true;
    keep(key, made);
    return made;
  }

  void forget(uint64_t key) {
    const MutexLock lock(mutex_);
    entries_.erase(key);
    made_.notify_all();
  }

  void keep(uint64_t key, const Pointer& value) {
    std::list<Pointer> dropped;  // freed after the lock is released
    const MutexLock lock(mutex_);
    recent_.push_front(key);
    entries_[key] = {.value = value, .place = recent_.begin()};
    size_bytes_ += value->memory_bytes();
    while (size_bytes_ > capacity_bytes_ && recent_.size() > 1) {
      const auto last = entries_.find(recent_.back());
      size_bytes_ -= last->second.value->memory_bytes();
      dropped.push_back(std::move(last->second.value));
      entries_.erase(last);
      recent_.pop_back();
    }
    made_.notify_all();
  }

  const uint64_t capacity_bytes_;
  const Make make_;
  mutable Mutex mutex_;
  std::condition_variable made_;
  std::unordered_map<uint64_t, Entry> entries_ GUARDED_BY(mutex_);
  std::list<uint64_t> recent_ GUARDED_BY(mutex_);
  uint64_t size_bytes_ GUARDED_BY(mutex_) = 0;
};

}  // namespace millrace
