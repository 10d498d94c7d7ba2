// Outcome: what a replayed call returned, and when.
#pragma once

#include <cerrno>
#include <cstdint>

#include "base/system/clock.h"

namespace millrace::replay {

struct Outcome {
  int64_t result = -1;  // bytes, if the call moves bytes; negative: failed
  int error = 0;        // errno
  uint64_t begin_ns = 0;
  uint64_t end_ns = 0;
};

inline uint64_t now_ns() { return static_cast<uint64_t>(monotonic_now().count()); }

// Measures one call. `body` returns what the call returned.
template <typename Body>
Outcome timed(Body body) {
  Outcome outcome;
  errno = 0;
  outcome.begin_ns = now_ns();
  outcome.result = static_cast<int64_t>(body());
  outcome.error = outcome.result < 0 ? errno : 0;
  outcome.end_ns = now_ns();
  return outcome;
}

}  // namespace millrace::replay
