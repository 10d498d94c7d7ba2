// AllMode: runs a command and records every I/O system call of it and of all it starts, from
// outside: also of static programs, and of calls made without the C library.
//
// A process of our own watches the command by ptrace; a seccomp filter makes the kernel stop it at
// the calls in question and at no others. The watcher is not the caller: it belongs to no terminal
// and stays until everything it watches has ended. The caller may therefore end, or be killed,
// before a daemon that the command left behind. docs/design/all-mode.md has the reasons.
//
// Linux 5.3 or newer. A machine or a container that forbids ptrace or seccomp is told by an error
// before the command runs.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.h"

namespace millrace::trace {

// What the watcher calls itself, as ps and /proc show it.
inline constexpr const char* kWatcherName = "millrace-all";

struct AllModeOptions {
  std::vector<std::string> argv;         // argv[0] is looked up in PATH
  std::vector<std::string> environment;  // NAME=value, all of it
  std::string session;                   // the session's directory; its page is there
  std::string include;                   // globs, as MILLRACE_TRACE_INCLUDE has them
  std::string exclude;
  // The paths of our libraries, as LD_PRELOAD has them: their own calls are not the program's.
  std::vector<std::string> own_libraries;
};

// Starts the command as a child of the caller, in its process group and with its terminal: wait for
// it as for any other. What it recorded is complete when wait has told its end.
// REQUIRES: the process has one thread.
Result<pid_t> start_with_system_calls(const AllModeOptions& options);

// Starts the command, waits for its end and returns its wait status.
Result<int> run_with_system_calls(const AllModeOptions& options);

}  // namespace millrace::trace
