// Inputs: what a user may pass as a trace: directories, .mrt files, DFTracer's files, or several of
// them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/io/temporary_directory.h"
#include "base/result.h"
#include "trace/trace.h"

namespace millrace::interop {

// The paths of one job.
struct JobPaths {
  std::string title;  // as the user gave it; the first path if there are several
  std::vector<std::string> paths;
};

// Each directory is a job of its own. All files together are one job. With `one_job`, everything is
// one job.
std::vector<JobPaths> jobs_of(const std::vector<std::string>& paths, bool one_job);

// The DFTracer files in a directory, sorted by name.
Result<std::vector<std::string>> pfw_in(const std::string& directory);

// The files of a job by type, judged by their names.
struct JobFiles {
  std::vector<std::string> traces;  // for Trace::open_all
  std::vector<std::string> pfw;     // must be imported first
  std::vector<std::string> problems;
};
JobFiles files_of(const JobPaths& job);

// Imports DFTracer's files into one packed trace in `directory`. Adds a sentence to `problems` for
// what could not be used. Fails only if nothing could be used.
Result<std::string> import_job(const std::vector<std::string>& pfw, const std::string& directory,
                               std::vector<std::string>& problems);

// The trace of a job, and the temporary directory of its imported part.
struct OpenedJob {
  std::string title;
  trace::Trace trace;
  std::vector<std::string> problems;  // in addition to those of the trace
  std::optional<TemporaryDirectory> imported;
};
Result<OpenedJob> open_job(const JobPaths& job);

}  // namespace millrace::interop
