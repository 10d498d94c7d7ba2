// Clock: the current time. Tests can fake it.
//
// Monotonic time is for durations; wall time is for dates. Code that waits or computes rates takes
// a `const Clock&`, so that a test can control time. Code that only measures may call
// monotonic_now() itself.
#pragma once

#include <atomic>
#include <chrono>

namespace millrace {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual std::chrono::nanoseconds monotonic() const = 0;  // since an arbitrary start
  virtual std::chrono::nanoseconds wall() const = 0;       // since 1970-01-01 UTC
};

// The machine's clocks. Valid for the life of the program, usable from any thread.
const Clock& system_clock();

std::chrono::nanoseconds monotonic_now();
std::chrono::nanoseconds wall_now();

// CPU time used so far by all threads of this process.
std::chrono::nanoseconds process_cpu_time();

// Moves only when advance() is called.
class FakeClock final : public Clock {
 public:
  std::chrono::nanoseconds monotonic() const override { return elapsed_.load(); }
  std::chrono::nanoseconds wall() const override { return kStart + elapsed_.load(); }
  void advance(std::chrono::nanoseconds by) { elapsed_.store(elapsed_.load() + by); }

 private:
  static constexpr std::chrono::nanoseconds kStart = std::chrono::seconds(1'700'000'000);
  std::atomic<std::chrono::nanoseconds> elapsed_{std::chrono::nanoseconds(0)};
};

}  // namespace millrace
