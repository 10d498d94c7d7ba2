// ThreadPool: a fixed number of threads that run tasks.
//
// Tasks start in the order of submission. The queue is bounded: submit() waits if the pool is far
// behind, so a fast producer cannot fill the memory. If a task throws (out of memory), the caller
// that waits for it gets an error. A task must not submit to its own pool, because it could wait
// for itself; parallel_for may be nested, because its caller works too.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "base/concurrency/bounded_queue.h"
#include "base/concurrency/mutex.h"
#include "base/result.h"

namespace millrace {

class ThreadPool {
 public:
  using Task = std::function<void()>;

  // Has fewer threads if the system cannot start more. Without any, callers do the work themselves.
  // REQUIRES: thread_count > 0
  explicit ThreadPool(size_t thread_count, size_t queue_capacity = 1024);

  // Runs all submitted tasks, then stops the threads.
  ~ThreadPool();

  size_t thread_count() const { return threads_.size(); }

  void submit(Task task);

  // Waits until all tasks submitted so far, by anyone, have run. Returns the first exception of a
  // task since the last call.
  Status wait_idle();

  // Calls `work(i)` for each i < `count`, on the pool's threads and the caller's, and waits. After
  // an error, no further index is started; returns the error of the lowest index that failed.
  // Indices are handed out one by one: each should take at least a few microseconds.
  Status parallel_for(size_t count, const std::function<Status(size_t)>& work);

 private:
  void run();
  void run_task(const Task& task);
  bool try_submit(Task& task);
  void task_done();

  BoundedQueue<Task> tasks_;
  std::vector<std::thread> threads_;
  Mutex mutex_;
  std::condition_variable idle_;
  size_t unfinished_ GUARDED_BY(mutex_) = 0;
  std::optional<Error> first_error_ GUARDED_BY(mutex_);
};

}  // namespace millrace
