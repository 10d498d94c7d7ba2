// Launcher: runs a command under the recorder, and packs what it leaves.
//
// The command sees its own terminal, its own signals and, but for the variables of the recorder,
// its own environment. While it runs, a thread of the launcher packs what has been written; when it
// has ended, the rest. Processes that it leaves behind go on recording, and are packed later
// (`millrace pack`).
//
// Signals sent to the launcher are passed on to the command. Once the command has ended, SIGINT,
// SIGTERM, SIGHUP and SIGQUIT stop packing; the same signal again ends the launcher at once.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "trace/packer.h"

namespace millrace::trace {

struct LaunchOptions {
  std::vector<std::string> command;
  std::filesystem::path directory;  // where the trace goes; made where it is not there
  std::filesystem::path library;    // libmillrace_trace.so
  uint32_t levels = 0;              // bit n: wire::Level n
  std::vector<std::string> include;
  std::vector<std::string> exclude;
  bool pack = true;
  bool all_calls = false;  // POSIX calls from outside: also of static programs (trace/all_mode.h)
};

struct LaunchOutcome {
  int wait_status = 0;  // of the command, as waitpid gives it
  std::filesystem::path session;
  std::filesystem::path packed_file;
  PackOutcome packed;
  uint64_t lost_events = 0;
  uint64_t lost_processes = 0;
  std::string pack_error;  // why packing failed, if it did: the recording is then still there
  int stopped_by = 0;      // the signal that stopped packing: the recording is then still there
};

// Fails where the trace cannot be written or the command cannot be started (kNotFound).
Result<LaunchOutcome> launch(const LaunchOptions& options);

// The recorder's library: MILLRACE_TRACE_LIBRARY, or where this program was built or installed.
Result<std::filesystem::path> find_recorder();

// Makes a session's directory below `directory`, for a launch by this process.
Result<std::filesystem::path> make_session(const LaunchOptions& options);

}  // namespace millrace::trace
