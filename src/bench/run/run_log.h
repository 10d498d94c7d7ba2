// RunLog: what happened in a run and when, one line each, in output.log_file.
//
// The kernel has each line when add() returns, so a run that was killed shows how far it came.
// Lines are appended, as in DLIO: runs with the same folder share a file. Not thread-safe.
#pragma once

#include <filesystem>
#include <string_view>

#include "base/io/file.h"
#include "base/result.h"

namespace millrace::bench {

class RunLog {
 public:
  RunLog() = default;  // lines go nowhere, as on all ranks but the first
  static Result<RunLog> open(const std::filesystem::path& path);

  // A text of several lines becomes as many lines. A line that cannot be written is lost: a full
  // disk must not end the run for the sake of its log.
  void add(std::string_view text) const { add("INFO", text); }
  void warn(std::string_view text) const { add("WARNING", text); }

 private:
  explicit RunLog(File file) : file_(std::move(file)) {}
  void add(std::string_view level, std::string_view text) const;

  File file_;
};

}  // namespace millrace::bench
