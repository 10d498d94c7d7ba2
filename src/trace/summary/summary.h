// Summary: totals of a trace, the content of `millrace info`.
//
// It also names what a trace cannot itemise: I/O through mappings and foreign io_uring rings,
// programs without events, lost events, and what could not be read.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/system/terminal.h"
#include "trace/trace.h"

namespace millrace::trace {

struct CallTotals {
  uint64_t events = 0;
  uint64_t errors = 0;
  uint64_t duration_ns = 0;  // sum; nested calls and calls on several threads overlap
  uint64_t bytes = 0;        // returned by calls that move bytes
};

// A program that was started but has no events.
struct UntracedProgram {
  std::string path;
  std::string why;
  uint64_t times = 0;
};

struct NotItemised {
  uint64_t mmap_calls = 0;
  uint64_t mappings_ended = 0;
  uint64_t mapped_bytes = 0;          // of ended mappings
  uint64_t mapped_present_bytes = 0;  // of their pages in memory: an upper bound on what was read
  uint64_t io_uring_setups = 0;
  uint64_t io_uring_enters = 0;
  uint64_t major_faults = 0;
  uint64_t minor_faults = 0;
  std::vector<UntracedProgram> untraced;
  std::vector<ProcessIndex> sandboxed;  // stopped recording when they entered a sandbox
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
  std::vector<std::string> problems;  // of the trace, and of blocks that could not be read
};

// Reads all events, on as many threads as there are CPUs.
Summary summarise(const Trace& trace);

std::string summary_text(const Trace& trace, const Summary& summary, const Terminal& terminal);

// docs/formats/info-json.md.
std::string summary_json(const Trace& trace, const Summary& summary);

// For example "posix"; "level 9" if this version does not know it.
std::string level_name(wire::Level level);
std::string call_name(wire::Call call);

}  // namespace millrace::trace
