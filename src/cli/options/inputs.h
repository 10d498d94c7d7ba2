// Inputs: the traces that a verb reads, the selected part of them, and their profile.
//
// Under mpirun, every rank opens the tables of the trace and scans its share of the blocks; rank 0
// gets the whole profile.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analyze/analyze.h"
#include "cli/options/command.h"
#include "comm/comm.h"
#include "interop/inputs.h"

namespace millrace::cli {

// --from, --until, --ranks, --role, --threads: for report, advise and others.
std::vector<Option> input_options();

// Option::check of --role.
Status check_role(std::string_view text);

// TRACE..., one or more.
Positional traces_positional();

// Runs the work of a verb on its ranks: one, or several under mpirun. If a rank fails or is lost,
// all ranks fail, and one of them prints the error.
Result<int> with_ranks(const std::function<Result<int>(comm::Comm& comm)>& work);

struct ProfiledJob {
  std::unique_ptr<interop::OpenedJob> job;  // must not move: the scan refers to its trace
  std::unique_ptr<analyze::Scan> scan;      // provides details for the page
  analyze::Profile profile;                 // on rank 0
};

// Opens and profiles one job, with progress on a terminal. Parts that could not be read are in the
// problems of the profile. Fails if nothing could be read.
Result<ProfiledJob> profile_job(const interop::JobPaths& job, const Arguments& arguments,
                                const analyze::Limits& limits, comm::Comm& comm);

// The profile of a trace, or one saved by `report --json`, which has limits of its own.
Result<analyze::Profile> profile_at(const std::string& path, const Arguments& arguments,
                                    comm::Comm& comm, const analyze::Limits& limits = {});

// Prints what could not be read to standard error.
void warn_of(const std::vector<std::string>& problems);

}  // namespace millrace::cli
