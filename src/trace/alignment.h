// Alignment: how the clocks of several hosts become one.
//
// The common clock is the monotonic clock of one host, the reference, with its wall time. Sessions
// on one host and boot share a clock and need nothing. Others are mapped by what MPI measured
// against rank 0 where it did, else by each host's own pairs of monotonic and wall time, which are
// as good as the hosts' NTP: no trace can tell how good that is, so the report says "wall clock".
#pragma once

#include <cstdint>
#include <vector>

#include "trace/tables.h"

namespace millrace::trace {

// common = reference_ns + (t - at_ns) * rate, for times t of a session.
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
  int64_t origin_wall_ns = 0;  // wall time of the common clock's zero
  std::vector<ClockMap> maps;  // by session
};

// What a session is aligned from.
struct AlignmentInput {
  SessionEntry* session = nullptr;  // offset, drift, uncertainty and alignment are set in it
  int64_t file_origin_wall_ns = 0;  // for sessions without clocks
  std::vector<const ProcessEntry*> processes;
};

// REQUIRES: every input has a session.
Alignment align_sessions(const std::vector<AlignmentInput>& inputs);

}  // namespace millrace::trace
