// exit_like: makes the end of a command that we ran look like our own.
#pragma once

namespace millrace::cli {

inline constexpr int kExitNotFound = 127;  // the exit code of shells for an unknown command

// The exit code for a status of waitpid(2). Ends this process by the same signal if one killed the
// command, so that our parent sees the same status.
int exit_like(int wait_status);

}  // namespace millrace::cli
