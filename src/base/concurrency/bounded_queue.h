// BoundedQueue: passes values between threads. The faster side waits.
//
// Any number of producers and consumers. First in, first out. After close(), pushes are refused;
// pops return what is left and then nothing. No thread may be inside the queue when it is
// destroyed.
#pragma once

#include <cassert>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <optional>

#include "base/concurrency/mutex.h"

namespace millrace {

template <typename T>
class BoundedQueue {
 public:
  // REQUIRES: capacity > 0
  explicit BoundedQueue(size_t capacity) : capacity_(capacity) { assert(capacity > 0); }

  // Waits for room. If the queue is closed, drops the value and returns false.
  bool push(T value) {
    MutexLock lock(mutex_);
    room_.wait(lock, [&]() REQUIRES(mutex_) { return closed_ || values_.size() < capacity_; });
    if (closed_) return false;
    put(std::move(value), lock);
    return true;
  }

  // Does not wait. Returns false if there is no room or the queue is closed; `value` is then
  // untouched.
  bool try_push(T& value) {
    MutexLock lock(mutex_);
    if (closed_ || values_.size() >= capacity_) return false;
    put(std::move(value), lock);
    return true;
  }

  // Waits for a value. Returns nullopt if the queue is closed and empty.
  std::optional<T> pop() {
    MutexLock lock(mutex_);
    filled_.wait(lock, [&]() REQUIRES(mutex_) { return closed_ || !values_.empty(); });
    return take(lock);
  }

  // Like pop(), but also returns nullopt after `timeout`.
  std::optional<T> pop_for(std::chrono::nanoseconds timeout) {
    MutexLock lock(mutex_);
    filled_.wait_for(lock, timeout, [&]() REQUIRES(mutex_) { return closed_ || !values_.empty(); });
    return take(lock);
  }

  std::optional<T> try_pop() {
    MutexLock lock(mutex_);
    return take(lock);
  }

  void close() {
    {
      const MutexLock lock(mutex_);
      closed_ = true;
    }
    room_.notify_all();
    filled_.notify_all();
  }

  bool is_closed() const {
    const MutexLock lock(mutex_);
    return closed_;
  }

  size_t size() const {
    const MutexLock lock(mutex_);
    return values_.size();
  }

  size_t capacity() const { return capacity_; }

 private:
  // They unlock before they notify, so that the woken thread does not block on the lock. clang
  // cannot follow the caller's lock.
  void put(T value, MutexLock& lock) REQUIRES(mutex_) NO_THREAD_SAFETY_ANALYSIS {
    values_.push_back(std::move(value));
    lock.unlock();
    filled_.notify_one();
  }

  std::optional<T> take(MutexLock& lock) REQUIRES(mutex_) NO_THREAD_SAFETY_ANALYSIS {
    if (values_.empty()) return std::nullopt;
    std::optional<T> value(std::move(values_.front()));
    values_.pop_front();
    lock.unlock();
    room_.notify_one();
    return value;
  }

  const size_t capacity_;
  mutable Mutex mutex_;
  std::condition_variable room_;
  std::condition_variable filled_;
  std::deque<T> values_ GUARDED_BY(mutex_);
  bool closed_ GUARDED_BY(mutex_) = false;
};

}  // namespace millrace
