#include "base/concurrency/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <memory>
#include <system_error>
#include <utility>

#include "base/concurrency/mutex.h"
#include "base/exception.h"

namespace millrace {

ThreadPool::ThreadPool(size_t thread_count, size_t queue_capacity) : tasks_(queue_capacity) {
  assert(thread_count > 0);
  threads_.reserve(thread_count);
  try {
    for (size_t i = 0; i < thread_count; ++i) threads_.emplace_back([this] { run(); });
  } catch (const std::system_error&) {
    // The threads that did start do the work.
  }
}

ThreadPool::~ThreadPool() {
  tasks_.close();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::run() {
  while (const auto task = tasks_.pop()) run_task(*task);
}

void ThreadPool::run_task(const Task& task) {
  try {
    task();
  } catch (...) {
    Error error = fail_exception();
    const MutexLock lock(mutex_);
    if (!first_error_) first_error_ = std::move(error);
  }
  task_done();
}

void ThreadPool::task_done() {
  const MutexLock lock(mutex_);
  if (--unfinished_ == 0) idle_.notify_all();
}

void ThreadPool::submit(Task task) {
  {
    const MutexLock lock(mutex_);
    ++unfinished_;
  }
  if (threads_.empty()) return run_task(task);
  if (!tasks_.push(std::move(task))) task_done();
}

bool ThreadPool::try_submit(Task& task) {
  {
    const MutexLock lock(mutex_);
    ++unfinished_;
  }
  if (tasks_.try_push(task)) return true;
  task_done();
  return false;
}

Status ThreadPool::wait_idle() {
  MutexLock lock(mutex_);
  idle_.wait(lock, [&]() REQUIRES(mutex_) { return unfinished_ == 0; });
  if (first_error_) return *std::exchange(first_error_, std::nullopt);
  return {};
}

namespace {

// Shared by the caller of parallel_for and its helpers. A helper that starts after the caller has
// returned finds no index left and does not touch the caller's data.
class SharedLoop {
 public:
  SharedLoop(size_t count, const std::function<Status(size_t)>& work)
      : count_(count), work_(work) {}

  void help() {
    // Added once at the end: a lock per index would cost more than short work.
    size_t finished = 0;
    for (size_t index = next_.fetch_add(1); index < count_; index = next_.fetch_add(1)) {
      if (!stopped_.load(std::memory_order_relaxed)) run(index);
      ++finished;
    }
    if (finished == 0) return;
    const MutexLock lock(mutex_);
    finished_ += finished;
    if (finished_ == count_) all_done_.notify_all();
  }

  Status wait() {
    MutexLock lock(mutex_);
    all_done_.wait(lock, [&]() REQUIRES(mutex_) { return finished_ == count_; });
    if (first_error_) return *std::move(first_error_);
    return {};
  }

 private:
  Status call(size_t index) {
    try {
      return work_(index);
    } catch (...) {
      return fail_exception();
    }
  }

  void run(size_t index) {
    Status status = call(index);
    if (status.ok()) return;
    stopped_ = true;
    const MutexLock lock(mutex_);
    if (index >= failed_index_) return;
    failed_index_ = index;
    first_error_ = std::move(status).error();
  }

  const size_t count_;
  const std::function<Status(size_t)>& work_;
  std::atomic<size_t> next_ = 0;
  std::atomic<bool> stopped_ = false;
  Mutex mutex_;
  std::condition_variable all_done_;
  size_t finished_ GUARDED_BY(mutex_) = 0;
  size_t failed_index_ GUARDED_BY(mutex_) = std::numeric_limits<size_t>::max();
  std::optional<Error> first_error_ GUARDED_BY(mutex_);
};

}  // namespace

Status ThreadPool::parallel_for(size_t count, const std::function<Status(size_t)>& work) {
  // Shared, because helpers may start after the caller has returned.
  const auto loop = std::make_shared<SharedLoop>(count, work);
  const size_t helper_count = count == 0 ? 0 : std::min(count - 1, thread_count());
  for (size_t i = 0; i < helper_count; ++i) {
    Task task = [loop] { loop->help(); };
    if (!try_submit(task)) break;
  }
  loop->help();
  return loop->wait();
}

}  // namespace millrace
