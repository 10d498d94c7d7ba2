// Foreground command: runs a command of the user as if it had been started without us.
//
// It has our terminal and our signals: those that other processes send to us are passed on to it.
//
//   const SignalsHeld held(true);
//   ASSIGN_OR_RETURN(const pid_t child, start_command(argv, environment, held));
//   const SignalsPassedOn passed_on(child);
//   held.release();
//   ASSIGN_OR_RETURN(const int wait_status, wait_for_child(child));
//
// One command at a time, and one thread that handles signals: start others while they are held.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <iterator>
#include <string>
#include <vector>

#include "base/result.h"

namespace millrace {

inline constexpr int kPassedSignals[] = {SIGINT,  SIGQUIT, SIGTERM, SIGHUP,
                                         SIGUSR1, SIGUSR2, SIGALRM};

// Blocks signals from the command's start until they can be passed on. Otherwise a signal would end
// this process, or be taken by another of its threads.
class SignalsHeld {
 public:
  explicit SignalsHeld(bool hold);
  ~SignalsHeld() { release(); }
  SignalsHeld(const SignalsHeld&) = delete;
  SignalsHeld& operator=(const SignalsHeld&) = delete;

  void release() const;

 private:
  sigset_t before_ = {};
};

// `argv[0]` is looked up in PATH; `environment` has entries NAME=VALUE. Fails if the command cannot
// be run (kNotFound: no such program).
Result<pid_t> start_command(const std::vector<std::string>& argv,
                            const std::vector<std::string>& environment, const SignalsHeld& held);

// Passes signals on as long as the command runs. It receives the terminal's signals itself; a
// signal that another process sends to us is meant for the command.
class SignalsPassedOn {
 public:
  explicit SignalsPassedOn(pid_t child);
  ~SignalsPassedOn();
  SignalsPassedOn(const SignalsPassedOn&) = delete;
  SignalsPassedOn& operator=(const SignalsPassedOn&) = delete;

 private:
  struct sigaction before_[std::size(kPassedSignals)] = {};
};

// Returns the status of waitpid(2).
Result<int> wait_for_child(pid_t child);

// SIGINT, SIGQUIT, SIGTERM or SIGHUP, if one came after the command had ended; otherwise 0. A
// second one ends this process.
int signal_after_command();

}  // namespace millrace
