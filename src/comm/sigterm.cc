#include "comm/sigterm.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

namespace millrace::comm {
namespace {

// Set by SigtermHeld. The process ID, because a child of fork() inherits the handler and the pipe.
std::atomic<int> sigterm_fd = -1;
std::atomic<pid_t> sigterm_process = 0;

void on_sigterm(int) {
  const int saved_errno = errno;
  if (getpid() == sigterm_process) {
    static_cast<void>(!write(sigterm_fd, "t", 1));
  } else {
    // In a child the signal does what it would do without us: it ends the child when we return.
    static_cast<void>(signal(SIGTERM, SIG_DFL));
    static_cast<void>(raise(SIGTERM));
  }
  errno = saved_errno;
}

bool handler_is(void (*handler)(int)) {
  struct sigaction current{};
  sigaction(SIGTERM, nullptr, &current);
  return current.sa_handler == handler;
}

}  // namespace

SigtermHeld::SigtermHeld(int wake_fd) {
  if (!handler_is(SIG_DFL)) return;
  sigterm_fd = wake_fd;
  sigterm_process = getpid();
  struct sigaction action{};
  action.sa_handler = on_sigterm;
  action.sa_flags = SA_RESTART;
  sigaction(SIGTERM, &action, nullptr);
  held_ = true;
}

SigtermHeld::~SigtermHeld() {
  // If the program has installed a handler since, leave it.
  if (held_ && handler_is(on_sigterm)) static_cast<void>(signal(SIGTERM, SIG_DFL));
}

void end_by_sigterm() {
  static_cast<void>(signal(SIGTERM, SIG_DFL));
  kill(getpid(), SIGTERM);
  sigset_t just_this;
  sigemptyset(&just_this);
  sigaddset(&just_this, SIGTERM);
  pthread_sigmask(SIG_UNBLOCK, &just_this, nullptr);
  while (true) pause();
}

}  // namespace millrace::comm
