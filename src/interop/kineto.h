// kineto: reads a trace of torch.profiler (Kineto), as export_chrome_trace() writes it.
//
// Only what the GPU did: kernels and fills, and copies. The host's part is in our own traces. The
// whole text is in memory, and texts point into it; it is read once, from front to back. The reader
// is only as strict as needed to find the ends of values.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "interop/pfw/line.h"

namespace millrace::interop {

struct KinetoEvent {
  bool is_copy = false;  // otherwise a kernel, or a fill of memory
  uint64_t wall_ns = 0;  // since 1970
  uint64_t duration_ns = 0;
  uint64_t device = 0;
  uint64_t stream = 0;
  uint64_t size_bytes = 0;  // of a copy; 0: not given
  PfwValue name;
};

struct KinetoTrace {
  uint64_t pid = 0;  // of the process that was profiled; 0: unknown
  int64_t rank = -1;
  int64_t world_size = -1;
  uint64_t other_events = 0;        // of the host, or without the numbers that we need
  std::vector<KinetoEvent> events;  // in the order of their ends
};

// `text` must outlive the result.
Result<KinetoTrace> parse_kineto(std::string_view text);

}  // namespace millrace::interop
