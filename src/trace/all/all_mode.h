// AllMode: runs a command and records every I/O system call of the command and its descendants from
// outside. This includes static programs and calls that bypass the C library.
//
// A process of our own, the watcher, traces the command with ptrace. A seccomp filter makes the
// kernel stop the command at I/O calls only. The watcher is not the caller: it has no terminal and
// stays until everything it traces has ended. So the caller may exit, or be killed, before a daemon
// that the command left behind. docs/design/all-mode.md gives the reasons.
//
// Needs Linux 5.3. If the machine or a container forbids ptrace or seccomp, starting fails before
// the command runs.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.h"

namespace millrace::trace {

// The watcher's name in ps and /proc.
inline constexpr const char* kWatcherName = "millrace-all";

struct AllModeOptions {
  std::vector<std::string> argv;         // argv[0] is looked up in PATH
  std::vector<std::string> environment;  // the complete environment, as NAME=value
  std::string session;                   // the session's directory; must contain the session's page
  std::string include;                   // globs, as in MILLRACE_TRACE_INCLUDE
  std::string exclude;
  // The paths of our libraries, as in LD_PRELOAD. Their own calls are not recorded.
  std::vector<std::string> own_libraries;
};

// Starts the command as a child of the caller, in its process group and with its terminal. Wait for
// it as for any child. Once wait has reported its end, its recording is complete. REQUIRES: the
// process has one thread.
Result<pid_t> start_with_system_calls(const AllModeOptions& options);

// Starts the command, waits for it and returns its wait status.
Result<int> run_with_system_calls(const AllModeOptions& options);

}  // namespace millrace::trace
