#include "comm/sigterm.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

namespace millrace::comm {
namespace {

std::atomic<int> sigterm_fd = -1;  // of the one who holds it

void on_sigterm(int) {
  const int saved_errno = errno;
  static_cast<void>(!write(sigterm_fd, "t", 1));
  errno = saved_errno;
}

}  // namespace

SigtermHeld::SigtermHeld(int wake_fd) {
  struct sigaction before{};
  sigaction(SIGTERM, nullptr, &before);
  if (before.sa_handler != SIG_DFL) return;
  sigterm_fd = wake_fd;
  struct sigaction action{};
  action.sa_handler = on_sigterm;
  action.sa_flags = SA_RESTART;
  sigaction(SIGTERM, &action, nullptr);
  held_ = true;
}

SigtermHeld::~SigtermHeld() {
  if (held_) static_cast<void>(signal(SIGTERM, SIG_DFL));
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
