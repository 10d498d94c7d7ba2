#include "cli/jobs/exit_like.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <cstdio>

namespace millrace::cli {

int exit_like(int wait_status) {
  if (!WIFSIGNALED(wait_status)) return WEXITSTATUS(wait_status);
  const int signal = WTERMSIG(wait_status);
  const rlimit no_core = {0, 0};  // the command has already dumped its core
  setrlimit(RLIMIT_CORE, &no_core);
  std::fflush(nullptr);
  ::signal(signal, SIG_DFL);
  raise(signal);
  return 128 + signal;
}

}  // namespace millrace::cli
