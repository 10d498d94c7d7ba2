// WorkQueue: the batches in progress, in the order of their use, between the threads that fill them
// and the consumer that takes them.
//
// A thread always works on the oldest batch with unclaimed rows. If there is none, it begins the
// next batch, if there is room. It begins only a few batches of an epoch that the consumer has not
// begun. One lock, taken once per batch and thread, never per sample; rows are claimed without it
// (batch_work.h). Foreign code (sources, allocators) is never called under the lock, because it may
// wait for a lock of its own, such as Python's.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>

#include "base/concurrency/mutex.h"
#include "loader/pipeline/batch_memory.h"
#include "loader/pipeline/batch_work.h"
#include "loader/pipeline/schedule.h"
#include "loader/pipeline/tuner.h"

namespace millrace::loader::pipeline {

class WorkQueue {
 public:
  struct Options {
    std::shared_ptr<const data::SampleSource> source;  // for prepare()
    uint32_t buffer_count_max = 1;                     // limit set by the memory
    uint64_t memory_bytes = ~uint64_t{0};              // limit for ragged fields
    MemoryHooks hooks;
    // Called by a thread when the front becomes ready; not under the lock.
    std::function<void()> on_ready;
  };

  // REQUIRES: the layout outlives this.
  WorkQueue(Options options, const BatchLayout& layout, const TunerSetting& setting);

  // For the threads.
  // The batch to work on; waits while there is none. Null: the thread must end.
  std::shared_ptr<BatchWork> take(uint32_t thread);
  // The same without waiting, for a thread that has other work. Null: there is none now.
  std::shared_ptr<BatchWork> try_take(uint32_t thread);
  // Reports that all rows of `work` are filled.
  void finished(const BatchWork& work);

  // For the consumer, one thread at a time.
  enum class Front { kReady, kNotReady, kNothing, kCancelled };
  struct Taken {
    Front front = Front::kNothing;
    std::shared_ptr<BatchWork> work;  // kReady; nobody writes to it any more
  };
  // Takes the oldest batch once it is ready. kNotReady: `patience` has passed. kNothing: no batch
  // will come.
  Taken take_front(std::chrono::nanoseconds patience);
  // Whether take_front() would return something else than kNotReady now.
  bool is_front_known() const;

  // Drops the batches in progress.
  void restart(BatchSchedule schedule);
  // Drops the batches before the first one of the epoch. Does nothing and returns false if that one
  // is neither in progress nor next.
  bool skip_to(data::Epoch epoch);

  void set(const TunerSetting& setting);
  TunerSetting setting() const;
  void cancel();  // any thread
  void stop();    // ends the threads once they have finished their samples

  uint64_t buffers_allocated() const {
    return memory_.allocated_count() + ragged_.allocated_count();
  }
  // The time that all threads together have waited for room.
  std::chrono::nanoseconds blocked() const;

 private:
  Front look() const REQUIRES(mutex_);
  std::shared_ptr<BatchWork> find_work(MutexLock& lock) REQUIRES(mutex_);
  std::shared_ptr<BatchWork> oldest_unclaimed() const REQUIRES(mutex_);
  std::shared_ptr<BatchWork> begin_next() REQUIRES(mutex_);
  Status prepare(BatchWork& work, uint32_t thread_count);
  // They release the lock for a while, which clang cannot follow: it is the caller's.
  void prepare_unlocked(std::shared_ptr<BatchWork> work, MutexLock& lock)
      REQUIRES(mutex_) NO_THREAD_SAFETY_ANALYSIS;
  void announce(const BatchWork& work, MutexLock& lock) REQUIRES(mutex_) NO_THREAD_SAFETY_ANALYSIS;
  bool is_full() const REQUIRES(mutex_);
  bool is_far_ahead() const REQUIRES(mutex_);
  void count_blocked() const REQUIRES(mutex_);
  void wake_one() REQUIRES(mutex_);

  const Options options_;
  const BatchLayout& layout_;
  BatchMemory memory_;
  RaggedMemory ragged_;

  mutable Mutex mutex_;
  std::condition_variable work_;    // there may be work
  std::condition_variable parked_;  // more threads may be needed
  std::condition_variable ready_;   // the front may be ready
  TunerSetting setting_ GUARDED_BY(mutex_);
  std::optional<BatchSchedule> schedule_ GUARDED_BY(mutex_);  // nullopt: no batch is left to begin
  struct Entry {
    std::shared_ptr<BatchWork> work;  // shared with the threads that fill it
    bool is_prepared = false;
  };
  std::deque<Entry> entries_ GUARDED_BY(mutex_);  // front: what the consumer takes next
  // ScheduledBatch::pass of the epoch that the consumer has begun
  uint64_t begun_pass_ GUARDED_BY(mutex_) = 0;
  uint32_t idle_count_ GUARDED_BY(mutex_) = 0;
  mutable std::chrono::nanoseconds blocked_ GUARDED_BY(mutex_){};        // as of blocked_until_
  mutable std::chrono::nanoseconds blocked_until_ GUARDED_BY(mutex_){};  // a monotonic time
  bool consumer_waits_ GUARDED_BY(mutex_) = false;
  bool is_stopping_ GUARDED_BY(mutex_) = false;
  bool is_cancelled_ GUARDED_BY(mutex_) = false;
};

}  // namespace millrace::loader::pipeline
