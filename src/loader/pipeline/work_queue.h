// WorkQueue: the batches that are under way, in the order in which they are used, between the
// threads that fill them and the one that takes them.
//
// A thread always works on the oldest batch that has rows left, and begins the next one only where
// there is none and room for it; of an epoch that the consumer has not begun, only a few. One lock,
// taken once a batch and thread, never a sample; the rows of a batch are claimed without it
// (batch_work.h). No code of others (sources, allocators) is called with it, since that may wait
// for a lock of its own, such as Python's.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>

#include "loader/pipeline/batch_memory.h"
#include "loader/pipeline/batch_work.h"
#include "loader/pipeline/schedule.h"
#include "loader/pipeline/tuner.h"

namespace millrace::loader {

class WorkQueue {
 public:
  struct Options {
    std::shared_ptr<const data::SampleSource> source;  // told what is read soon
    uint32_t buffer_count_max = 1;                     // what the memory allows
    MemoryHooks hooks;
  };

  // REQUIRES: the layout outlives it.
  WorkQueue(Options options, const BatchLayout& layout, const TunerSetting& setting);

  // For the threads.
  // The batch to work on; waits while there is none. Null: the thread is to end.
  std::shared_ptr<BatchWork> take(uint32_t thread);
  // The same without waiting, for a thread that has something else to do. Null: there is none now.
  std::shared_ptr<BatchWork> try_take(uint32_t thread);
  // The last rows of `work` are filled.
  void finished(const BatchWork& work);

  // For the consumer, which is one thread at a time.
  enum class Front { kReady, kNotReady, kNothing, kCancelled };
  struct Taken {
    Front front = Front::kNothing;
    std::shared_ptr<BatchWork> work;  // kReady; shared with nobody who writes it any more
  };
  // Takes the oldest batch, once it is ready. kNotReady when `patience` has passed; kNothing: no
  // batch will come.
  Taken take_front(std::chrono::nanoseconds patience);

  // What was under way is dropped.
  void restart(BatchSchedule schedule);
  // Drops what comes before the first batch of the epoch; false, and nothing is done, where that is
  // neither under way nor what is begun next.
  bool skip_to(data::Epoch epoch);

  void set(const TunerSetting& setting);
  TunerSetting setting() const;
  void cancel();  // any thread
  void stop();    // ends the threads, once they are done with their samples

  uint64_t buffers_allocated() const { return memory_.allocated_count(); }
  // All threads together, for room.
  std::chrono::nanoseconds blocked() const;

 private:
  Front look() const;
  std::shared_ptr<BatchWork> find_work(std::unique_lock<std::mutex>& lock);
  std::shared_ptr<BatchWork> oldest_unclaimed() const;
  std::shared_ptr<BatchWork> begin_next();
  Status prepare(BatchWork& work, uint32_t thread_count);
  void prepare_unlocked(std::shared_ptr<BatchWork> work, std::unique_lock<std::mutex>& lock);
  bool is_full() const;
  bool is_far_ahead() const;
  void count_blocked() const;
  void wake_one();

  const Options options_;
  const BatchLayout& layout_;
  BatchMemory memory_;

  mutable std::mutex mutex_;
  std::condition_variable work_;    // there may be something to do
  std::condition_variable parked_;  // more threads may be wanted
  std::condition_variable ready_;   // the front may be ready
  TunerSetting setting_;
  std::optional<BatchSchedule> schedule_;  // nothing: nothing to begin
  struct Entry {
    std::shared_ptr<BatchWork> work;  // shared with the threads that fill it
    bool is_prepared = false;
  };
  std::deque<Entry> entries_;  // front: what the consumer takes next
  uint64_t begun_pass_ = 0;    // of the schedule: that of the epoch which the consumer has begun
  uint32_t idle_count_ = 0;
  mutable std::chrono::nanoseconds blocked_{};        // up to
  mutable std::chrono::nanoseconds blocked_until_{};  // this time
  bool consumer_waits_ = false;
  bool is_stopping_ = false;
  bool is_cancelled_ = false;
};

}  // namespace millrace::loader
