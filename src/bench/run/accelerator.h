// Accelerator: takes as long as the compute of a training step.
#pragma once

#include <chrono>
#include <cstdint>

namespace millrace::bench {

enum class ComputeMode : uint8_t {
  kSleep,  // the cores are free, as while a GPU computes
  kBusy,   // one core computes, as in training on CPUs or with heavy launch work
};

// Returns `duration` after `begin` (of monotonic_now()), or at once if that is past. A sleep ends
// late by tens of microseconds, which is much of a step of 0.4 ms; so the last part is a busy wait.
void wait_until(std::chrono::nanoseconds begin, std::chrono::nanoseconds duration,
                ComputeMode mode);

// ComputePace: how long each step of a pass computes.
//
// An accelerator does not wait for the timer of its host: the host queues a step ahead. So a step
// that ended late makes the next one shorter, by at most its own length. But steps that figures
// leave out must not lend time to those that count, or a utilisation could be above 100 %: the
// first counted step makes up for nothing.
class ComputePace {
 public:
  // Of the first steps of each pass, `excluded_steps` do not count.
  explicit ComputePace(uint64_t excluded_steps) : excluded_steps_(excluded_steps) {}

  void begin_pass();
  // How long the step has to compute. REQUIRES: each is followed by end_step().
  uint64_t begin_step(uint64_t nominal_ns);
  // How long it did, which is not less.
  void end_step(uint64_t took_ns);

 private:
  uint64_t excluded_steps_;
  uint64_t step_ = 0;         // of the pass
  uint64_t duration_ns_ = 0;  // of this step
  uint64_t late_ns_ = 0;      // how late the last one ended
};

// Asks the kernel for precise sleeps of the calling thread.
void ask_for_precise_sleeps();

}  // namespace millrace::bench
