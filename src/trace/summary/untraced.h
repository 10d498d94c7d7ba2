// Untraced: programs that were started but have no events, and the likely reason.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trace/summary/summary.h"
#include "trace/trace.h"

namespace millrace::trace {

// A successful exec or posix_spawn.
struct ProgramStart {
  ProcessIndex process{};
  uint64_t begin_ns = 0;
  uint32_t child_pid = 0;  // 0: exec, in the process itself
  NameIndex program{};
};

// Starts after which no process of that PID began to record.
std::vector<UntracedProgram> find_untraced(const Trace& trace,
                                           const std::vector<ProgramStart>& starts);

// Commands of the launcher that could not load the library. They have a process but no events.
std::vector<UntracedProgram> find_unseen_commands(const Trace& trace);

// "PATH was started 2 times and left no events: WHY".
std::string untraced_text(const UntracedProgram& program);

// Why a preloaded library cannot be loaded into a program, judged by its file as it is now:
// "statically linked", "setuid", ... For a script, judges its interpreter. Nothing if it can be
// loaded or if the file cannot be read.
std::optional<std::string> why_no_library(const std::string& path);

// The file that execvp would run.
std::string find_program(const std::string& command);

}  // namespace millrace::trace
