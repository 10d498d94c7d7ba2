// Progress: one line on a terminal that says how far a long piece of work is.
//
// Shown only on a terminal, so that logs and pipes stay clean; the line is erased at the end.
// Threads may report at once, at the cost of one atomic addition: drawing happens ten times a
// second, by whoever comes first.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

#include "base/clock.h"

namespace millrace {

class Progress {
 public:
  struct Options {
    std::string label;
    uint64_t total = 0;            // 0: not known
    bool counts_bytes = false;     // amounts are bytes; else things
    int fd = 2;                    // where the line goes, if it is a terminal
    const Clock* clock = nullptr;  // the system's where none is given
  };

  explicit Progress(Options options);
  ~Progress();  // erases the line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void add(uint64_t amount);

  // Shows at once, after the label, what is being done now. For steps, not for each of a million
  // files.
  void set_activity(std::string activity);

 private:
  void draw_if_due();
  void draw(std::chrono::nanoseconds now);  // mutex_ held
  std::string line(std::chrono::nanoseconds now) const;

  const Options options_;
  const Clock& clock_;
  const bool shown_;
  const std::chrono::nanoseconds start_;
  std::atomic<uint64_t> done_ = 0;
  std::atomic<std::chrono::nanoseconds> next_draw_;
  std::mutex mutex_;  // guards drawing and activity_
  std::string activity_;
};

}  // namespace millrace
