// Subprocess: runs a program until it exits or a deadline passes, and keeps its output.
//
// The program gets no standard input and a process group of its own. After the deadline, the whole
// group is killed. Output beyond a limit is read and dropped, so the program never blocks.
#pragma once

#include <atomic>
#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace millrace {

struct SubprocessOptions {
  std::chrono::milliseconds timeout = std::chrono::seconds(10);
  size_t output_limit_bytes = 64 << 10;
  // When it becomes true, the whole group is killed, and run_subprocess fails with kCancelled. May
  // be null.
  const std::atomic<bool>* cancelled = nullptr;
  // Added to the environment that the program inherits. Replaces variables of the same name.
  std::vector<std::pair<std::string, std::string>> environment;
  // Variables whose names begin with one of these are not inherited.
  std::vector<std::string_view> removed_prefixes;
};

struct SubprocessResult {
  int exit_code = 0;   // 128 + signal if killed by a signal, as in shells; 255 if it was lost
  std::string output;  // standard output and standard error, interleaved
};

// `argv[0]` is looked up in PATH. Fails if it cannot be started (kNotFound: no such program) or
// does not exit in time (kTimeout).
Result<SubprocessResult> run_subprocess(const std::vector<std::string>& argv,
                                        const SubprocessOptions& options = {});

// Closes all descriptors but these and the first three. A process that stays in the background must
// not keep what its caller's shell gave it: whoever reads from such a pipe would wait for its end.
void close_descriptors_except(std::vector<int> kept);

// The path of a program found in PATH; empty if it is not found.
std::string find_in_path(std::string_view program);

}  // namespace millrace
