// Job: the services of a store, on one node or on several: how they are started, waited for and
// ended. docs/design/store.md, "Who ends whom".
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "comm/connect.h"
#include "store/job/launcher.h"
#include "store/peers/peers.h"
#include "store/service/node_folder.h"
#include "store/service/service_process.h"

namespace millrace::store {

// Takes a line for the user.
using Say = std::function<void(const std::string& line)>;

struct JobOptions {
  ServiceProcessOptions process;
  std::vector<std::string> launcher;  // of the services of several nodes; empty: this node alone
  RankProgram program;                // what the launcher starts
};

struct Job {
  StartedService started;
  bool is_group = false;  // on several nodes
};

Result<Job> start_job(JobOptions options);

// Ends the services of a job that this process has started, and reaps its child. Returns whether
// all that programs wrote to the buffer is durable; says what is not, and what was lost.
bool end_job(const Job& job, bool has_buffer, const Say& say);

// Waits until all that is in the buffer of one node is durable. Returns whether it is, and names
// what is not.
bool flush_node(const std::filesystem::path& buffer, const Say& say);

// The same for all nodes of a job.
bool flush_job(const NodeStatus& node, const Say& say);

// Flushes and ends the services of a job that another process has started. `log` takes text that
// the service of this node has logged, as it is. Returns whether all is durable.
Result<bool> take_down_job(const NodeStatus& node, const Say& say, const Say& log);

// The services of the job that has this folder; null if there are none. A host that has none of
// them, such as a login node, has no folder: there, `table` says where they are.
Result<std::unique_ptr<Peers>> find_peers(const std::filesystem::path& node,
                                          const std::string& table = {});

// One of the processes that mpirun or srun has started, on each node of a job, for the service
// there.
struct RankOptions {
  ServiceProcessOptions process;
  // Another rank is lost before all services run: it must end this process with _exit.
  comm::LostRankFunction on_loss;
  // On one rank: why the services could not be started.
  std::function<void(const std::string& why)> on_failure;
  // On the first rank: all services run, `count` of them; the lines for the keeper.
  std::function<void(const std::filesystem::path& node, const std::string& lines)> on_ready;
  // The service of this node was killed.
  Say say;
};

// Stays as long as the service of this node. Returns whether the services were started; an error
// that happened before the ranks had found each other is returned.
Result<bool> run_rank(RankOptions options);

}  // namespace millrace::store
