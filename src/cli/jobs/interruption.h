// PoliteInterruption: lets a verb remove its files before Ctrl-C, SIGTERM or SIGHUP ends it.
//
// During its lifetime these signals are only noted, and work that looks at is_interrupted stops.
// The destructor then raises the signal again. An ignored signal (nohup) stays ignored. One at a
// time.
#pragma once

#include <signal.h>

#include <atomic>
#include <iterator>

namespace millrace::cli {

inline std::atomic<bool> is_interrupted = false;

class PoliteInterruption {
 public:
  PoliteInterruption();
  ~PoliteInterruption();
  PoliteInterruption(const PoliteInterruption&) = delete;
  PoliteInterruption& operator=(const PoliteInterruption&) = delete;

 private:
  static constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};
  struct sigaction before_[std::size(kSignals)] = {};
};

}  // namespace millrace::cli
