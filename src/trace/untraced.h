// Untraced: programs that a traced one started and that left no events, and why that may be.
#pragma once

#include <string>
#include <vector>

#include "trace/summary.h"
#include "trace/trace.h"

namespace millrace::trace {

// A successful exec or posix_spawn.
struct ProgramStart {
  ProcessIndex process{};
  uint64_t begin_ns = 0;
  uint32_t child_pid = 0;  // 0: the process itself became the program
  NameIndex program{};
};

// Those after which no process of that number began to record.
std::vector<UntracedProgram> find_untraced(const Trace& trace,
                                           const std::vector<ProgramStart>& starts);

// Why a preloaded library is not in a program, from the file as it is now: "statically linked",
// "setuid", ...
std::string why_untraced(const std::string& path);

}  // namespace millrace::trace
