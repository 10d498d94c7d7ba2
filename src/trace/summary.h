// Summary: what a trace holds, counted: the content of `millrace info`.
//
// Everything a trace cannot itemise is named here too: what went through mappings and foreign
// io_uring rings, programs that left no events, losses, and parts that could not be read.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "trace/trace.h"

namespace millrace::trace {

struct CallTotals {
  uint64_t events = 0;
  uint64_t errors = 0;
  uint64_t duration_ns = 0;  // of all together: calls on several threads, and nested ones, overlap
  uint64_t bytes = 0;        // that calls which move bytes returned
};

// A program that was started and left no events of its own.
struct UntracedProgram {
  std::string path;
  std::string why;
  uint64_t times = 0;
};

struct NotItemised {
  uint64_t mmap_calls = 0;
  uint64_t mappings_ended = 0;
  uint64_t mapped_bytes = 0;          // of those
  uint64_t mapped_present_bytes = 0;  // of their pages in memory: an upper bound of what was read
  uint64_t io_uring_setups = 0;
  uint64_t io_uring_enters = 0;
  uint64_t major_faults = 0;
  uint64_t minor_faults = 0;
  std::vector<UntracedProgram> untraced;
  std::vector<ProcessIndex> sandboxed;  // that stopped recording when they entered a sandbox
};

struct Summary {
  std::set<std::string> hosts;
  std::set<int32_t> ranks;
  uint64_t begin_ns = 0;
  uint64_t end_ns = 0;
  uint64_t events = 0;
  uint64_t files = 0;
  std::map<wire::Call, CallTotals> calls;
  std::vector<uint64_t> process_events;  // by process
  NotItemised not_itemised;
  std::vector<std::string> problems;  // the trace's, and those of blocks that could not be read
};

// Goes through all events, on as many threads as there are CPUs.
Summary summarise(const Trace& trace);

// "posix", or "level 9" for one this version does not know.
std::string level_name(wire::Level level);
std::string call_name(wire::Call call);

}  // namespace millrace::trace
