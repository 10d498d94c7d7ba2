// Rank: one of the processes that mpirun or srun has started, on each node of a job, for the
// service there. docs/design/store.md, "Who ends whom".
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "base/result.h"
#include "comm/connect.h"
#include "store/service/service_process.h"

namespace millrace::store {

struct RankOptions {
  ServiceProcessOptions process;
  // Another rank is lost before all services run: it must end this process with _exit.
  comm::LostRankFunction on_loss;
  // On one rank: why the services could not be started.
  std::function<void(const std::string& why)> on_failure;
  // On the first rank: all services run, `count` of them; the lines for the keeper.
  std::function<void(const std::filesystem::path& node, const std::string& lines)> on_ready;
  // The service of this node was killed.
  std::function<void(const std::string& line)> say;
};

// Stays as long as the service of this node. Returns whether the services were started; an error
// that happened before the ranks had found each other is returned.
Result<bool> run_rank(RankOptions options);

}  // namespace millrace::store
