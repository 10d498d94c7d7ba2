// Run: makes the calls of a plan, with one thread for each recorded thread, and measures them.
//
// A thread starts when every thread that had ended before it began in the trace has ended here too,
// so as many threads work at once as in the job, however fast they are. It also starts after the
// calls of other threads that had returned before it began. `fast` makes each call as
// soon as the previous one of its thread has returned. `as-recorded` waits until the call's time in
// the trace, counted from the first call; how late calls are is measured.
//
// Only the call itself is timed, not the wait for it, nor an lseek or open that stands in for what
// the trace lacks. A call that fails as in the trace is fine; one that fails only here is counted
// and the first few are described.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/numbers/quantile_sketch.h"
#include "base/result.h"
#include "replay/plan.h"
#include "replay/prepare.h"

namespace millrace::replay {

enum class Timing { kFast, kAsRecorded };

struct RunOptions {
  Timing timing = Timing::kFast;
  const std::atomic<bool>* stop = nullptr;
};

// One side of a comparison: the trace or the replay. Times are in nanoseconds.
struct Measured {
  uint64_t bytes = 0;
  uint64_t time_ns = 0;  // sum over the calls
  QuantileSketch latency_ns;

  void add(uint64_t call_ns, uint64_t call_bytes) {
    bytes += call_bytes;
    time_ns += call_ns;
    latency_ns.add(call_ns);
  }
  void merge(const Measured& other) {
    bytes += other.bytes;
    time_ns += other.time_ns;
    latency_ns.merge(other.latency_ns);
  }
};

struct FunctionResult {
  uint64_t calls = 0;
  uint64_t failed_here = 0;  // but succeeded in the trace
  uint64_t failed_in_both = 0;
  uint64_t succeeded_here = 0;  // but failed in the trace
  uint64_t short_count = 0;     // moved fewer bytes than in the trace
  Measured recorded;
  Measured replayed;

  void merge(const FunctionResult& other);
};

struct RunResult {
  std::map<wire::Call, FunctionResult> functions;
  QuantileSketch lateness_ns;         // with kAsRecorded
  std::vector<std::string> failures;  // the first few that happened only here
  uint64_t elapsed_ns = 0;
  uint64_t calls = 0;
  bool is_interrupted = false;

  uint64_t failed_here() const;
};

// Fails if a thread or a buffer cannot be had. REQUIRES: prepare() made `prepared` for this plan.
Result<RunResult> run(const Plan& plan, const Prepared& prepared, const RunOptions& options);

}  // namespace millrace::replay
