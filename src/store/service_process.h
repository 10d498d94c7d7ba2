// ServiceProcess: the store's service in a process of its own.
//
// It has its own session, so the terminal's signals do not reach it. It ends at SIGTERM, and when
// the process that it watches ends, however that dies.
#pragma once

#include <sys/types.h>

#include <filesystem>

#include "base/file.h"
#include "base/result.h"
#include "store/service.h"

namespace millrace::store {

// Where a service without a terminal writes its problems, in the folder of the node.
inline constexpr char kLogFile[] = "log";

struct ServiceProcessOptions {
  ServiceOptions service;      // its log is set here
  File watched;                // a pidfd; closed: none
  bool is_background = false;  // lets go of our output, and logs into the folder; otherwise it logs
                               // to standard error
};

struct StartedService {
  pid_t pid = 0;
  std::filesystem::path node;
};

// On return, the service answers requests. REQUIRES: this process has one thread
Result<StartedService> start_service_process(ServiceProcessOptions options);

// A descriptor that is readable when the process has ended; closed if it has already.
File watch_process(pid_t pid);

}  // namespace millrace::store
