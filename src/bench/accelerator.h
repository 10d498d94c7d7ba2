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

// Asks the kernel for precise sleeps of the calling thread.
void ask_for_precise_sleeps();

}  // namespace millrace::bench
