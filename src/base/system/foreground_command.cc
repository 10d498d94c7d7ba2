#include "base/system/foreground_command.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "base/io/file.h"
#include "base/text/text.h"

namespace millrace {
namespace {

std::atomic<pid_t> command_pid = 0;  // 0: it has ended
std::atomic<int> late_signal = 0;    // a later signal, which asks to stop what is left to do

// The second such signal ends this process at once, because the rest may wait for a slow disk.
void note_late_signal(int signal) {
  if (signal != SIGINT && signal != SIGQUIT && signal != SIGTERM && signal != SIGHUP) return;
  late_signal = signal;
  ::signal(signal, SIG_DFL);
}

void pass_on(int signal, siginfo_t* info, void*) {
  const int saved_errno = errno;
  const pid_t command = command_pid;
  const bool from_a_process = info->si_code <= 0;
  if (command == 0) {
    note_late_signal(signal);
  } else if (from_a_process && info->si_pid != command) {
    kill(command, signal);
  }
  errno = saved_errno;
}

std::vector<char*> pointers_to(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

SignalsHeld::SignalsHeld(bool hold) {
  sigset_t held;
  sigemptyset(&held);
  for (const int signal : kPassedSignals) sigaddset(&held, signal);
  pthread_sigmask(hold ? SIG_BLOCK : SIG_UNBLOCK, hold ? &held : nullptr, &before_);
}

void SignalsHeld::release() const { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

// The child reports failures through a pipe that exec closes.
Result<pid_t> start_command(const std::vector<std::string>& argv,
                            const std::vector<std::string>& environment, const SignalsHeld& held) {
  const std::vector<char*> arguments = pointers_to(argv);
  const std::vector<char*> variables = pointers_to(environment);
  int pipe_ends[2];
  if (pipe2(pipe_ends, O_CLOEXEC) != 0) return fail_os(errno, "cannot create a pipe");
  const pid_t child = fork();
  if (child == 0) {
    held.release();
    execvpe(arguments[0], arguments.data(), variables.data());
    const int error = errno;
    static_cast<void>(!write(pipe_ends[1], &error, sizeof(error)));
    _exit(127);
  }
  const int fork_error = errno;
  ::close(pipe_ends[1]);
  const File reading(pipe_ends[0]);
  if (child < 0) return fail_os(fork_error, "cannot start a process");
  int error = 0;
  if (read(reading.fd(), &error, sizeof(error)) != sizeof(error)) return child;
  waitpid(child, nullptr, 0);
  return fail_os(error, fmt::format("cannot run '{}'", printable(argv[0])));
}

SignalsPassedOn::SignalsPassedOn(pid_t child) {
  command_pid = child;
  late_signal = 0;
  for (size_t i = 0; i < std::size(kPassedSignals); ++i) {
    sigaction(kPassedSignals[i], nullptr, &before_[i]);
    if (before_[i].sa_handler == SIG_IGN) continue;
    struct sigaction action{};
    action.sa_sigaction = pass_on;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    sigaction(kPassedSignals[i], &action, nullptr);
  }
}

SignalsPassedOn::~SignalsPassedOn() {
  for (size_t i = 0; i < std::size(kPassedSignals); ++i) {
    sigaction(kPassedSignals[i], &before_[i], nullptr);
  }
}

// Clears the command's PID before the system can reuse it. Only this thread handles signals, so
// none can be on its way to the old PID.
Result<int> wait_for_child(pid_t child) {
  // Not in waitid(): ThreadSanitizer holds signals back as long as a thread is in there.
  const File process(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  pollfd waiting{.fd = process.fd(), .events = POLLIN, .revents = 0};
  while (process.is_open() && ::poll(&waiting, 1, -1) < 0 && errno == EINTR) {
  }
  siginfo_t ended{};
  while (waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT) != 0) {
    if (errno != EINTR) return fail_os(errno, "cannot wait for the command");
  }
  command_pid = 0;
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return fail_os(errno, "cannot wait for the command");
  }
  return status;
}

int signal_after_command() { return late_signal; }

}  // namespace millrace
