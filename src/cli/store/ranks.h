// store_ranks: the store's services of several nodes: as ranks that mpirun or srun has started, and
// how `run` and `up` start these.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/options/command.h"
#include "store/service/service_process.h"

namespace millrace::cli {

// The launcher and its arguments, without the program: for --hosts, --hostfile, or the nodes of a
// Slurm job. Empty: the store is on this node alone.
Result<std::vector<std::string>> group_launcher(const Arguments& arguments);

// Starts `store up` with our options on all nodes, by this launcher.
Result<store::StartedService> start_group(const Arguments& arguments,
                                          const std::vector<std::string>& launcher, File watched);

// This process is one of the ranks, and stays as long as its service. `exports` are the lines that
// programs need, for the folder of the node.
Result<int> run_rank(store::ServiceProcessOptions options, const std::string& job,
                     const std::function<std::string(const std::filesystem::path& node)>& exports);

// Open MPI gives programs on other hosts only the variables that this one lists: its name and
// value, with ours added.
struct StoreVariables {
  std::string node;     // MILLRACE_STORE
  std::string preload;  // LD_PRELOAD
};
std::pair<std::string, std::string> forwarded_variables(const StoreVariables& variables);

// The services of the job that has this folder; null if there are none. A host that has none of
// them, such as a login node, has no folder: there, `table` says where they are.
Result<std::unique_ptr<store::Peers>> find_peers(const std::filesystem::path& node,
                                                 const std::string& table = {});

std::vector<Option> rank_options();

}  // namespace millrace::cli
