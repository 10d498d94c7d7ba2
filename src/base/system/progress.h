// Progress: a progress line on a terminal.
//
// Shown only on a terminal, so that logs and pipes stay clean; the line is erased at the end.
// Thread-safe. A report costs one atomic addition; the line is redrawn ten times per second, by the
// thread that comes first.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

#include "base/concurrency/mutex.h"
#include "base/system/clock.h"

namespace millrace {

class Progress {
 public:
  struct Options {
    std::string label;
    uint64_t total = 0;            // 0: unknown
    bool counts_bytes = false;     // false: amounts are a number of things
    int fd = 2;                    // where the line is drawn, if it is a terminal
    const Clock* clock = nullptr;  // null: the system clock
  };

  explicit Progress(Options options);
  ~Progress();  // erases the line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void add(uint64_t amount);

  // Shows the current activity after the label, at once. Call it for steps, not for each of a
  // million files.
  void set_activity(std::string activity);

 private:
  void draw_if_due();
  void draw(std::chrono::nanoseconds now) REQUIRES(mutex_);
  std::string line(std::chrono::nanoseconds now) const REQUIRES(mutex_);

  const Options options_;
  const Clock& clock_;
  const bool shown_;
  const std::chrono::nanoseconds start_;
  std::atomic<uint64_t> done_ = 0;
  std::atomic<std::chrono::nanoseconds> next_draw_;
  Mutex mutex_;  // also guards drawing
  std::string activity_ GUARDED_BY(mutex_);
};

}  // namespace millrace
