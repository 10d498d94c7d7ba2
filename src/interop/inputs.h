// Inputs: what a user may give as a trace: directories, .mrt files, DFTracer's files, many at once.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/temporary_directory.h"
#include "trace/trace.h"

namespace millrace::interop {

// The paths of one job.
struct JobPaths {
  std::string title;  // as the user gave them, shortened to the first
  std::vector<std::string> paths;
};

// Each directory is a job of its own; files together are one, and so is everything where
// `one_job` says so.
std::vector<JobPaths> jobs_of(const std::vector<std::string>& paths, bool one_job);

// The files of a directory that DFTracer wrote, in an order that does not depend on the disk.
Result<std::vector<std::string>> pfw_in(const std::string& directory);

// A job's files, told apart by their names.
struct JobFiles {
  std::vector<std::string> traces;  // for Trace::open_all
  std::vector<std::string> pfw;     // to be imported first
  std::vector<std::string> problems;
};
JobFiles files_of(const JobPaths& job);

// DFTracer's files as one packed file in `directory`. What could not be used is in `problems`;
// fails only where nothing could.
Result<std::string> import_job(const std::vector<std::string>& pfw, const std::string& directory,
                               std::vector<std::string>& problems);

// A job's trace, and where its imported part lies meanwhile.
struct OpenedJob {
  std::string title;
  trace::Trace trace;
  std::vector<std::string> problems;  // beside those of the trace
  std::optional<TemporaryDirectory> imported;
};
Result<OpenedJob> open_job(const JobPaths& job);

}  // namespace millrace::interop
