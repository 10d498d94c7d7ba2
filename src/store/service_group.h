// ServiceGroup: starts the store's services of several nodes through a launcher (mpirun, srun).
//
// A process of its own, the keeper, runs the launcher and ends it when the watched process ends or
// at SIGTERM. It has its own session, so the terminal's signals do not reach the services.
#pragma once

#include <string>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "store/service_process.h"

namespace millrace::store {

struct ServiceGroupOptions {
  std::vector<std::string> command;      // the launcher with its arguments, which starts the ranks
  std::vector<std::string> environment;  // NAME=VALUE
  std::filesystem::path node;            // the folder, the same on all nodes
  File watched;                          // a pidfd; closed: none
};

// The line with which the first rank says that all services are ready.
inline constexpr char kGroupReady[] = "store ready";

// On return, all services answer. The process ID is that of the keeper. What launcher and ranks
// print to standard error appears on ours. REQUIRES: this process has one thread
Result<StartedService> start_service_group(ServiceGroupOptions options);

}  // namespace millrace::store
