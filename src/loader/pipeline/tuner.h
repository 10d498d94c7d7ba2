// Tuner: sets the number of threads and of prefetched batches from how long the consumer and the
// threads waited.
//
// A pure controller: it measures nothing, has no clock and no thread, and equal measurements give
// equal settings. It grows quickly, because a waiting consumer wastes an accelerator, and shrinks
// slowly, because a sleeping thread costs little. It checks the effect of each step: threads that
// gave no speedup are removed and not tried again for a while.
#pragma once

#include <chrono>
#include <cstdint>

namespace millrace::loader::pipeline {

struct TunerSetting {
  uint32_t thread_count = 1;
  uint32_t prefetch_batches = 1;

  bool operator==(const TunerSetting&) const = default;
};

struct TunerOptions {
  uint32_t cpu_count = 1;               // CPUs that the process may use
  uint32_t fixed_thread_count = 0;      // 0: tuned
  uint32_t fixed_prefetch_batches = 0;  // 0: tuned
  uint32_t prefetch_batches_max = 1;    // limit set by the memory
  uint64_t batch_size = 1;
};

// What happened since the previous interval.
struct TunerInterval {
  std::chrono::nanoseconds wall{};
  std::chrono::nanoseconds waited{};   // by the consumer, for a batch
  std::chrono::nanoseconds blocked{};  // by all threads together, for room
  std::chrono::nanoseconds cpu{};      // used by all threads together
  uint64_t samples = 0;                // handed out
};

class Tuner {
 public:
  explicit Tuner(const TunerOptions& options);

  const TunerSetting& setting() const { return setting_; }

  // Returns the new setting.
  const TunerSetting& observe(const TunerInterval& interval);

 private:
  void grow(const TunerInterval& interval);
  void grow_threads(const TunerInterval& interval);
  void judge_last_step(double rate);
  void shrink();

  TunerOptions options_;
  TunerSetting setting_;
  uint32_t thread_count_max_ = 1;
  uint32_t thread_count_min_ = 1;  // fewer were not enough
  uint32_t patience_ = 0;          // intervals until the two bounds are reset
  uint32_t calm_intervals_ = 0;    // in a row without waiting and with idle threads
  bool has_shrunk_ = false;        // in the last step
  uint32_t grown_from_ = 0;        // threads before the last step above the CPUs; 0: no such step
  double rate_before_ = 0;         // samples per second before that step
};

}  // namespace millrace::loader::pipeline
