// ServiceGroup: starts the store's services of several nodes through a launcher (mpirun, srun).
//
// A process of its own, the keeper, runs the launcher, in a session of its own. When the watched
// process ends, or at SIGTERM, it asks all services to end, and waits for the launcher.
#pragma once

#include <string>
#include <vector>

#include "base/io/file.h"
#include "base/result.h"
#include "store/service/service_process.h"

namespace millrace::store {

struct ServiceGroupOptions {
  std::vector<std::string> command;      // the launcher with its arguments, which starts the ranks
  std::vector<std::string> environment;  // NAME=VALUE
  std::filesystem::path node;            // the folder, the same on all nodes
  File watched;                          // a pidfd; closed: none
};

// The line with which the first rank says that all services are ready.
inline constexpr char kGroupReady[] = "store ready";
// If this variable is set, the first rank prints the table of the services before that, between
// these lines. It has the key of the job, so only the keeper sets it, which reads the output.
inline constexpr char kGroupTableVariable[] = "MILLRACE_STORE_TABLE_WANTED";
inline constexpr char kGroupTableBegin[] = "# table of the store\n";
inline constexpr char kGroupTableEnd[] = "# end of the table\n";

// On return, all services answer. The process ID is that of the keeper. What launcher and ranks
// print to standard error appears on ours. REQUIRES: this process has one thread
Result<StartedService> start_service_group(ServiceGroupOptions options);

}  // namespace millrace::store
