// Launcher: runs a command under the recorder and packs its recording.
//
// The command has its own terminal, signals and environment; only the recorder's variables are
// added. While it runs, a thread of the launcher packs what has been written; after it has ended,
// the launcher packs the rest. Processes that it leaves behind go on recording and are packed later
// (`millrace compact`).
//
// Signals sent to the launcher are passed on to the command. After the command has ended, SIGINT,
// SIGTERM, SIGHUP and SIGQUIT stop packing; a second such signal ends the launcher at once.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "trace/pack/packer.h"

namespace millrace::trace {

struct LaunchOptions {
  std::vector<std::string> command;
  std::filesystem::path directory;  // of the trace; created if it does not exist
  std::filesystem::path library;    // libmillrace_trace.so
  uint32_t levels = 0;              // bit n: wire::Level n
  std::vector<std::string> include;
  std::vector<std::string> exclude;
  bool pack = true;
  bool all_calls = false;  // record POSIX calls from outside, also of static programs
                           // (trace/all/all_mode.h)
};

struct LaunchOutcome {
  int wait_status = 0;  // of the command, from waitpid
  std::filesystem::path session;
  std::filesystem::path packed_file;
  PackOutcome packed;
  uint64_t lost_events = 0;
  uint64_t lost_processes = 0;
  std::string pack_error;  // why packing failed; empty if it did not. The recording is then kept
  int stopped_by = 0;      // the signal that stopped packing. The recording is then kept
};

// Fails if the trace cannot be written or the command cannot be started (kNotFound).
Result<LaunchOutcome> launch(const LaunchOptions& options);

// The recorder's library: MILLRACE_TRACE_LIBRARY, else the one of this build or installation.
Result<std::filesystem::path> find_recorder();

// Creates a session's directory below `directory` for a launch by this process.
Result<std::filesystem::path> make_session(const LaunchOptions& options);

}  // namespace millrace::trace
