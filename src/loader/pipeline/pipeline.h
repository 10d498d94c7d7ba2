// Pipeline: the threads that fill batches ahead of the consumer.
//
// For one thread at a time; cancel() and stats() are for any thread. In a child of fork, which does
// not have the threads, only the destructor may be called; it then does nothing. A thread that is
// stuck in a read cannot be ended: the destructor waits for a while and then abandons the thread,
// with everything it uses, until its read returns or the process ends.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "base/result.h"
#include "loader/pipeline/batch_work.h"
#include "loader/pipeline/lane.h"
#include "loader/pipeline/schedule.h"
#include "loader/pipeline/tuner.h"

namespace millrace::loader::pipeline {

struct Options {
  LaneOptions lane;
  TunerOptions tuner;
  BatchLayout layout;
  MemoryHooks hooks;
  uint64_t memory_bytes = ~uint64_t{0};  // limit for all batches in progress; for ragged fields
  std::chrono::nanoseconds read_deadline{};
  std::chrono::nanoseconds ending_patience = std::chrono::seconds(2);
  std::function<bool()> is_interrupted;  // a waiting next() calls it a few times per second
  bool marks_waits = true;               // next() is a region of a trace
  std::function<void()> on_ready;  // called by a thread when the batch that next() returns is ready
};

struct Stats {
  LaneCounts lanes;
  std::chrono::nanoseconds waited{};
  std::chrono::nanoseconds blocked{};
  TunerSetting setting;
  uint64_t buffers_allocated = 0;
  ReadStats reads;

  // Sums what is counted. The setting and how samples are read are the other's, which is later.
  Stats& operator+=(const Stats& later);
};

class Pipeline {
 public:
  explicit Pipeline(Options options);
  ~Pipeline();

  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  bool is_of_this_process() const;

  // Drops the batches in progress and continues with `schedule`.
  Status restart(BatchSchedule schedule);
  // Drops the batches before the first one of the epoch. False: that one is not in progress.
  bool skip_to(data::Epoch epoch);

  // Waits for the next batch, which may have a failure or bad rows.
  // REQUIRES: restart() succeeded, and an epoch has batches.
  Result<std::shared_ptr<BatchWork>> next();
  bool is_ready() const;  // whether next() would return without waiting
  // Counts a wait for is_ready() that the caller made, as next() counts its own.
  void count_wait(std::chrono::nanoseconds waited);

  void cancel();
  Stats stats() const;

 private:
  struct Core;

  static void run(Core& core, uint32_t thread, Lane& lane);
  Status start_threads(uint32_t thread_count);
  Result<std::shared_ptr<BatchWork>> wait();
  Status check_stuck(std::chrono::nanoseconds waits_since) const;
  void tune(uint64_t samples);

  std::shared_ptr<Core> core_;  // shared with the threads, which may outlive the pipeline
  std::vector<std::thread> threads_;
  Tuner tuner_;
  std::atomic<int64_t> waited_ns_{0};
  // Since the last tuning.
  std::chrono::nanoseconds tuned_at_{};
  Stats tuned_stats_;
  uint64_t tuned_samples_ = 0;
};

}  // namespace millrace::loader::pipeline
