#include "base/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "base/file.h"

namespace millrace {

ThreadPool::ThreadPool(size_t thread_count, size_t queue_capacity) : tasks_(queue_capacity) {
  assert(thread_count > 0);
  threads_.reserve(thread_count);
  for (size_t i = 0; i < thread_count; ++i) threads_.emplace_back([this] { run(); });
}

ThreadPool::~ThreadPool() {
  tasks_.close();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::run() {
  while (const auto task = tasks_.pop()) {
    (*task)();
    task_done();
  }
}

void ThreadPool::task_done() {
  const std::lock_guard lock(mutex_);
  if (--unfinished_ == 0) idle_.notify_all();
}

void ThreadPool::submit(Task task) {
  {
    const std::lock_guard lock(mutex_);
    ++unfinished_;
  }
  if (!tasks_.push(std::move(task))) task_done();
}

bool ThreadPool::try_submit(Task& task) {
  {
    const std::lock_guard lock(mutex_);
    ++unfinished_;
  }
  if (tasks_.try_push(task)) return true;
  task_done();
  return false;
}

void ThreadPool::wait_idle() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [&] { return unfinished_ == 0; });
}

namespace {

// What the caller of a parallel_for and the threads that help share. A helper that starts late,
// when the caller has already returned, finds no index left and touches nothing of the caller's.
class SharedLoop {
 public:
  SharedLoop(size_t count, const std::function<Status(size_t)>& work)
      : count_(count), work_(work) {}

  void help() {
    for (;;) {
      const size_t index = next_.fetch_add(1);
      if (index >= count_) return;
      if (!stopped_.load(std::memory_order_relaxed)) run(index);
      finish_one();
    }
  }

  Status wait() {
    std::unique_lock lock(mutex_);
    all_done_.wait(lock, [&] { return finished_ == count_; });
    if (first_error_) return *std::move(first_error_);
    return {};
  }

 private:
  void run(size_t index) {
    Status status = work_(index);
    if (status.ok()) return;
    stopped_ = true;
    const std::lock_guard lock(mutex_);
    if (index >= failed_index_) return;
    failed_index_ = index;
    first_error_ = std::move(status).error();
  }

  void finish_one() {
    const std::lock_guard lock(mutex_);
    if (++finished_ == count_) all_done_.notify_all();
  }

  const size_t count_;
  const std::function<Status(size_t)>& work_;
  std::atomic<size_t> next_ = 0;
  std::atomic<bool> stopped_ = false;
  std::mutex mutex_;
  std::condition_variable all_done_;
  size_t finished_ = 0;
  size_t failed_index_ = std::numeric_limits<size_t>::max();
  std::optional<Error> first_error_;
};

}  // namespace

Status ThreadPool::parallel_for(size_t count, const std::function<Status(size_t)>& work) {
  // Shared by the caller and helpers that may begin after it has returned.
  const auto loop = std::make_shared<SharedLoop>(count, work);
  const size_t helper_count = count == 0 ? 0 : std::min(count - 1, thread_count());
  for (size_t i = 0; i < helper_count; ++i) {
    Task task = [loop] { loop->help(); };
    if (!try_submit(task)) break;
  }
  loop->help();
  return loop->wait();
}

namespace {

// CPUs' worth of time that cgroup v2 (cpu.max) or v1 (cpu.cfs_*) allows; no limit: nothing.
std::optional<double> cgroup_cpu_quota() {
  if (const auto v2 = read_file("/sys/fs/cgroup/cpu.max", 256); v2.ok()) {
    double quota = 0;
    double period = 0;
    if (std::sscanf(v2->c_str(), "%lf %lf", &quota, &period) == 2 && period > 0) {
      return quota / period;
    }
    return std::nullopt;
  }
  const auto quota = read_file("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", 64);
  const auto period = read_file("/sys/fs/cgroup/cpu/cpu.cfs_period_us", 64);
  if (!quota.ok() || !period.ok()) return std::nullopt;
  const double quota_us = std::atof(quota->c_str());
  const double period_us = std::atof(period->c_str());
  if (quota_us <= 0 || period_us <= 0) return std::nullopt;
  return quota_us / period_us;
}

}  // namespace

size_t usable_cpu_count() {
  size_t count = std::max(1u, std::thread::hardware_concurrency());
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0) {
    count = static_cast<size_t>(std::max(1, CPU_COUNT(&allowed)));
  }
  if (const auto quota = cgroup_cpu_quota()) {
    count = std::min(count, static_cast<size_t>(std::max(1.0, std::ceil(*quota))));
  }
  return count;
}

}  // namespace millrace
