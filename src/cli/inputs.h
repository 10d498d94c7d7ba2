// Inputs of the verbs that look at traces: which, which part, and the profile that comes of them.
//
// Under mpirun every rank opens the tables of the trace and scans its share of the blocks; rank 0
// gets the whole profile.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analyze/analyze.h"
#include "cli/command.h"
#include "comm/comm.h"
#include "interop/inputs.h"

namespace millrace::cli {

// --from, --until, --ranks, --role, --threads, --one-job: for report, advise and the like.
std::vector<Option> input_options();

// Of --role, for Option::check.
Status check_role(std::string_view text);

// TRACE..., one or more.
Positional traces_positional();

// Does the work of a verb with the ranks it was started on: alone, or under mpirun. An error of one
// is all ranks' error, told once, while the others can still hear it; so is the loss of a rank.
Result<int> with_ranks(const std::function<Result<int>(comm::Comm& comm)>& work);

struct ProfiledJob {
  std::unique_ptr<interop::OpenedJob> job;  // stays where it is: the scan refers to its trace
  std::unique_ptr<analyze::Scan> scan;      // its context is asked for details
  analyze::Profile profile;                 // on rank 0
};

// Opens one job and profiles it, showing progress on a terminal. What could not be read is in the
// profile's problems. Fails where nothing could be used.
Result<ProfiledJob> profile_job(const interop::JobPaths& job, const Arguments& arguments,
                                const analyze::Limits& limits, comm::Comm& comm);

// The profile of a path that is a trace, or of a file that `report --json` wrote.
Result<analyze::Profile> profile_at(const std::string& path, const Arguments& arguments,
                                    comm::Comm& comm);

// What could not be read, once, to standard error.
void warn_of(const std::vector<std::string>& problems);

}  // namespace millrace::cli
