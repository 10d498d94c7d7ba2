// Launcher: how the store's services of several nodes are started, by mpirun or srun.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "store/service/service_process.h"

namespace millrace::store {

// The nodes of a job, as the user gives them to mpirun. Without either: those of the Slurm job, or
// this one.
struct JobHosts {
  std::optional<std::string> hosts;
  std::optional<std::string> hostfile;
};

// The launcher and its arguments, without the program. Empty: the store is on this node alone.
Result<std::vector<std::string>> group_launcher(const JobHosts& hosts);

// This program, as a launcher starts it on each node.
struct RankProgram {
  std::vector<std::string> words;  // of the command line that was given, without the program
  // NAME, VALUE: what launchers need, unless the user has set it.
  std::vector<std::pair<std::string, std::string>> environment;
};

// The words for the ranks: `store up` with the same options, in this job.
std::vector<std::string> words_for_ranks(const std::vector<std::string>& words,
                                         const std::string& job);

// Starts `store up` with our options on all nodes, by this launcher. `options` has the place of the
// store's directories on each node, and the name of the job; empty: a random one.
Result<StartedService> start_group(std::vector<std::string> launcher, const RankProgram& program,
                                   const ServiceOptions& options, File watched);

}  // namespace millrace::store
