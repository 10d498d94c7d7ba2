// ReadChoice: whether samples are read one at a time or many in flight, from what both were
// measured to cost.
//
// Threads read in turns of some samples, and report what each cost them. At first, and where the
// cost has changed since, a trial gives the turns to the two ways alternately, to all threads at
// about the same time, and the one that takes less of a thread's time for a byte is settled on; of
// two that are alike, the one with less CPU time, and of those the plain reads. Only the job's own
// reads are measured, and each is made once.
//
// A pure controller, with a lock and no clock: equal reports give equal choices. Any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "data/reads.h"
#include "data/sample.h"

namespace millrace::loader {

enum class ReadWay : uint8_t { kOneAtATime, kInFlight };

// What a thread does until it has read so many samples, or for so long.
struct ReadTurn {
  ReadWay way = ReadWay::kOneAtATime;
  uint32_t trial = 0;  // the number of the trial it is of; 0: of none
  uint64_t sample_count = ~uint64_t{0};
  std::chrono::nanoseconds elapsed = std::chrono::nanoseconds::max();
};

struct ReadCost {
  uint64_t samples = 0;
  uint64_t bytes = 0;
  std::chrono::nanoseconds elapsed{};  // of the thread, while it read or waited for reads
  std::chrono::nanoseconds cpu{};      // likewise

  ReadCost& operator+=(const ReadCost& other);
};

struct ReadStats {
  struct Way {
    std::string name;
    double bytes_per_second = 0;  // of a thread, in the last trial
    double cpu_us_per_sample = 0;
  };

  std::string engine;         // of the reads now: "posix", "uring"; empty: the source has no names
  std::vector<Way> measured;  // in the last trial; empty: there was none
  uint32_t trial_count = 0;   // that have ended
  std::string refusal;        // why nothing is read in flight, where it would be
};

class ReadChoice {
 public:
  // `depth`: the reads that are in flight at most. 1 is one at a time.
  ReadChoice(data::ReadWays ways, size_t depth);

  // One more thread takes turns.
  void add_thread();

  // What a thread does next, in this epoch.
  ReadTurn next_turn(data::Epoch epoch);
  // What a turn has cost. True: the thread goes on in the same way, with another turn like it.
  bool report(const ReadTurn& turn, const ReadCost& cost, data::Epoch epoch);
  // Reads in flight cannot be had after all: there is one way left.
  void refuse(std::string refusal);

  ReadStats stats() const;

 private:
  bool should_measure(data::Epoch epoch);
  void start_trial();
  void settle();
  ReadTurn settled_turn() const;

  const data::ReadWays ways_;
  const uint64_t turn_samples_;

  mutable std::mutex mutex_;
  bool is_open_ = false;  // there is a choice
  ReadWay chosen_ = ReadWay::kOneAtATime;
  uint64_t thread_count_ = 0;
  std::string refusal_;

  uint32_t trial_ = 0;  // the last one's number
  bool is_trying_ = false;
  uint64_t turns_given_ = 0;           // in the trial
  std::vector<ReadCost> of_trial_[2];  // by way
  ReadCost measured_[2];               // of the last trial that ended
  uint32_t trials_ended_ = 0;

  data::Epoch epoch_{};
  double cost_then_ = 0;                         // of the chosen way, in the trial
  double cost_now_ = 0;                          // lately
  uint32_t turns_changed_ = 0;                   // in a row, that cost much more or less than then
  std::chrono::nanoseconds elapsed_in_trial_{};  // of all threads
  std::chrono::nanoseconds elapsed_since_{};     // likewise, since it ended
};

}  // namespace millrace::loader
