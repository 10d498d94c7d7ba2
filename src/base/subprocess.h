// Subprocess: runs a program to its end, or to ours, and keeps what it said.
//
// The program gets no standard input, a process group of its own, and a deadline after which the
// whole group is killed. What it prints beyond a bound is read and dropped, so it never blocks.
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace millrace {

struct SubprocessOptions {
  std::chrono::milliseconds timeout = std::chrono::seconds(10);
  size_t output_limit_bytes = 64 << 10;
  // Set in the program's environment on top of ours.
  std::vector<std::pair<std::string, std::string>> environment;
};

struct SubprocessResult {
  int exit_code = 0;   // 128 + signal where a signal ended it, as shells say; 255 where it was lost
  std::string output;  // standard output and standard error as they came, mixed
};

// `argv[0]` is looked up in PATH. Fails where it cannot be started (kNotFound: no such program) or
// does not end in time (kTimeout).
Result<SubprocessResult> run_subprocess(const std::vector<std::string>& argv,
                                        const SubprocessOptions& options = {});

// Where a program would be found in PATH; empty where it would not.
std::string find_in_path(std::string_view program);

}  // namespace millrace
