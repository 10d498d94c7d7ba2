// ReadChoice: decides by measurement whether to read samples one at a time or with many in flight.
//
// Threads read in turns of some samples and report the cost of each turn. At first, and again when
// the cost has changed, a trial alternates between the two ways, for all threads at about the same
// time. The way that takes less thread time per byte wins. If both are about equal, the one with
// less CPU time wins, and if that is equal too, reading one at a time. A trial measures only reads
// that the job needs anyway, and makes none twice.
//
// A pure controller without a clock: equal reports give equal choices. Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/concurrency/mutex.h"
#include "data/reads.h"
#include "data/sample.h"

namespace millrace::loader::pipeline {

enum class ReadWay : uint8_t { kOneAtATime, kInFlight };

// How a thread reads until it has read `sample_count` samples or `elapsed` has passed.
struct ReadTurn {
  ReadWay way = ReadWay::kOneAtATime;
  uint32_t trial = 0;  // the trial it belongs to; 0: none
  uint64_t sample_count = ~uint64_t{0};
  std::chrono::nanoseconds elapsed = std::chrono::nanoseconds::max();
};

struct ReadCost {
  uint64_t samples = 0;
  uint64_t bytes = 0;
  std::chrono::nanoseconds elapsed{};  // of the thread, while it read or waited for reads
  std::chrono::nanoseconds cpu{};      // of the thread, in that time

  ReadCost& operator+=(const ReadCost& other);
};

struct ReadStats {
  struct Way {
    std::string name;
    double bytes_per_second = 0;  // per thread, in the last trial
    double cpu_us_per_sample = 0;
  };

  std::string engine;         // in use now: "posix", "uring"; empty: the source has no names
  std::vector<Way> measured;  // in the last trial; empty: there was none
  uint32_t trial_count = 0;   // completed trials
  std::string refusal;        // why reads in flight are not available
};

class ReadChoice {
 public:
  // `depth`: the maximum number of reads in flight. 1: one at a time.
  ReadChoice(data::ReadWays ways, size_t depth);

  // Adds a thread that takes turns.
  void add_thread();

  // The next turn of a thread, in this epoch.
  ReadTurn next_turn(data::Epoch epoch);
  // Reports the cost of a turn. True: the thread continues with another turn like it.
  bool report(const ReadTurn& turn, const ReadCost& cost, data::Epoch epoch);
  // Reads in flight turned out to be unavailable: read one at a time from now on.
  void refuse(std::string refusal);

  ReadStats stats() const;

 private:
  bool should_measure(data::Epoch epoch) REQUIRES(mutex_);
  void start_trial() REQUIRES(mutex_);
  void settle() REQUIRES(mutex_);
  ReadTurn settled_turn() const REQUIRES(mutex_);

  const data::ReadWays ways_;
  const uint64_t turn_samples_;

  mutable Mutex mutex_;
  bool is_open_ GUARDED_BY(mutex_) = false;  // both ways are available
  ReadWay chosen_ GUARDED_BY(mutex_) = ReadWay::kOneAtATime;
  uint64_t thread_count_ GUARDED_BY(mutex_) = 0;
  std::string refusal_ GUARDED_BY(mutex_);

  uint32_t trial_ GUARDED_BY(mutex_) = 0;  // the number of the last trial
  bool is_trying_ GUARDED_BY(mutex_) = false;
  uint64_t turns_given_ GUARDED_BY(mutex_) = 0;              // in the trial
  std::vector<ReadCost> trial_costs_[2] GUARDED_BY(mutex_);  // by way
  ReadCost measured_[2] GUARDED_BY(mutex_);                  // in the last completed trial
  uint32_t trials_ended_ GUARDED_BY(mutex_) = 0;

  data::Epoch epoch_ GUARDED_BY(mutex_){};
  double trial_cost_ GUARDED_BY(mutex_) = 0;   // of the chosen way, in the trial
  double recent_cost_ GUARDED_BY(mutex_) = 0;  // recent average
  uint32_t turns_changed_ GUARDED_BY(mutex_) =
      0;  // in a row, that cost much more or less than then
  std::chrono::nanoseconds elapsed_in_trial_ GUARDED_BY(mutex_){};  // summed over all threads
  std::chrono::nanoseconds elapsed_since_
      GUARDED_BY(mutex_){};  // summed likewise, since the trial ended
};

}  // namespace millrace::loader::pipeline
