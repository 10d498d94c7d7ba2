// Untraced: programs that were started and left no events, and why that may be.
#pragma once

#include <optional>
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

// Commands of the launcher in which the library could not be. They have a process and no events.
std::vector<UntracedProgram> find_unseen_commands(const Trace& trace);

// "PATH was started 2 times and left no events: WHY".
std::string untraced_text(const UntracedProgram& program);

// Why a preloaded library cannot be in a program, from its file as it is now: "statically linked",
// "setuid", ... Of a script, why it cannot be in its interpreter. Nothing if it can be, or if the
// file cannot be read.
std::optional<std::string> why_no_library(const std::string& path);

// The file that execvp would run.
std::string find_program(const std::string& command);

}  // namespace millrace::trace
