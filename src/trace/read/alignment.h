// Alignment: maps the clocks of several hosts onto a common clock.
//
// The common clock is the monotonic clock of one host, the reference, with its wall time. Sessions
// of the same host and boot share a clock and need no alignment. Other sessions use the offset to
// rank 0 that MPI measured. Without it they use their own monotonic and wall times, which are only
// as good as the hosts' NTP. No trace can tell how good that is, so the report says "wall clock".
#pragma once

#include <cstdint>
#include <vector>

#include "trace/read/tables.h"

namespace millrace::trace {

// common = reference_ns + (t - at_ns) * rate, for a time t of a session.
struct ClockMap {
  int64_t at_ns = 0;
  int64_t reference_ns = 0;
  double drift = 0;  // rate - 1

  bool is_shift() const { return drift == 0; }
  int64_t apply(int64_t time_ns) const {
    const int64_t since = time_ns - at_ns;
    return reference_ns + since + static_cast<int64_t>(drift * static_cast<double>(since));
  }
};

struct Alignment {
  int64_t origin_wall_ns = 0;  // wall time at zero of the common clock
  std::vector<ClockMap> maps;  // by session
};

// What the alignment needs to know about a session.
struct AlignmentInput {
  SessionEntry* session = nullptr;  // its offset, drift, uncertainty and alignment are set
  int64_t file_origin_wall_ns = 0;  // for sessions without clocks
  std::vector<const ProcessEntry*> processes;
};

// REQUIRES: every input has a session.
Alignment align_sessions(const std::vector<AlignmentInput>& inputs);

}  // namespace millrace::trace
