#include "trace/record/launcher.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <optional>
#include <thread>

#include "base/mapped_file.h"
#include "base/own_library.h"
#include "base/text.h"
#include "trace/all/all_mode.h"
#include "trace/record/session_directory.h"
#include "trace/record/unseen_command.h"
#include "trace/summary/untraced.h"

namespace millrace::trace {
namespace {

constexpr std::chrono::milliseconds kPackInterval{250};
constexpr int kPassedSignals[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGALRM};

// The format that the recorder reads: separated by colons, with a backslash before a colon in a
// glob.
std::string glob_list(const std::vector<std::string>& globs) {
  std::string list;
  for (const std::string& glob : globs) {
    if (!list.empty()) list += ':';
    for (const char c : glob) {
      if (c == ':') list += '\\';
      list += c;
    }
  }
  return list;
}

// Calls that are recorded from outside are not recorded again inside.
uint32_t inside_levels(const LaunchOptions& options) {
  constexpr uint32_t kPosix = 1u << static_cast<uint32_t>(wire::Level::kPosix);
  return options.all_calls ? options.levels & ~kPosix : options.levels;
}

// Our environment plus LD_PRELOAD and the recorder's variables (trace/preload/settings.h).
class ChildEnvironment {
 public:
  ChildEnvironment(const LaunchOptions& options, const std::filesystem::path& session) {
    std::string preload = options.library.string();
    for (char** entry = environ; *entry != nullptr; ++entry) {
      const std::string_view text = *entry;
      if (text.starts_with("LD_PRELOAD=")) {
        preload += fmt::format(":{}", text.substr(std::strlen("LD_PRELOAD=")));
      } else if (text.starts_with("MILLRACE_TRACE_MPI_CLOCK=") ||
                 (!text.starts_with("MILLRACE_TRACE_") && !text.starts_with("MILLRACE_TRACE="))) {
        entries_.emplace_back(text);
      }
    }
    entries_.push_back(fmt::format("LD_PRELOAD={}", preload));
    entries_.push_back(fmt::format("MILLRACE_TRACE_DIR={}", options.directory.string()));
    entries_.push_back(fmt::format("MILLRACE_TRACE_SESSION={}", session.string()));
    entries_.push_back(fmt::format("MILLRACE_TRACE_LEVELS={}", level_list(inside_levels(options))));
    const std::string include = glob_list(options.include);
    const std::string exclude = glob_list(options.exclude);
    if (!include.empty()) entries_.push_back(fmt::format("MILLRACE_TRACE_INCLUDE={}", include));
    if (!exclude.empty()) entries_.push_back(fmt::format("MILLRACE_TRACE_EXCLUDE={}", exclude));
    for (std::string& entry : entries_) pointers_.push_back(entry.data());
    pointers_.push_back(nullptr);
  }

  char** get() { return pointers_.data(); }
  const std::vector<std::string>& entries() const { return entries_; }

 private:
  static std::string level_list(uint32_t levels) {
    std::vector<std::string> names;
    for (size_t level = 1; level < wire::kLevelCount; ++level) {
      if ((levels >> level & 1) != 0) names.emplace_back(wire::kLevelNames[level]);
    }
    return join(names, ",");
  }

  std::vector<std::string> entries_;
  std::vector<char*> pointers_;
};

Result<pid_t> start_watched(const LaunchOptions& options, const ChildEnvironment& environment,
                            const std::filesystem::path& session) {
  return start_with_system_calls({.argv = options.command,
                                  .environment = environment.entries(),
                                  .session = session.string(),
                                  .include = glob_list(options.include),
                                  .exclude = glob_list(options.exclude),
                                  .own_libraries = {options.library.string()}});
}

// Blocks signals from the command's start until they can be passed on. Otherwise a signal would end
// the launcher, or be taken by the thread that packs.
class SignalsHeld {
 public:
  explicit SignalsHeld(bool hold) {
    sigset_t held;
    sigemptyset(&held);
    for (const int signal : kPassedSignals) sigaddset(&held, signal);
    pthread_sigmask(hold ? SIG_BLOCK : SIG_UNBLOCK, hold ? &held : nullptr, &before_);
  }
  ~SignalsHeld() { release(); }

  void release() const { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_ = {};
};

// Starts the command. The child reports failures through a pipe that exec closes.
Result<pid_t> start(const LaunchOptions& options, const std::filesystem::path& session,
                    const SignalsHeld& held) {
  ChildEnvironment environment(options, session);
  if (options.all_calls) return start_watched(options, environment, session);
  std::vector<char*> arguments;
  for (const std::string& word : options.command)
    arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  int pipe_ends[2];
  if (pipe2(pipe_ends, O_CLOEXEC) != 0) return fail_os(errno, "cannot create a pipe");
  const pid_t child = fork();
  if (child == 0) {
    held.release();
    execvpe(arguments[0], arguments.data(), environment.get());
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
  return fail_os(error, fmt::format("cannot run '{}'", printable(options.command[0])));
}

// Passing signals to the command. It receives the terminal's signals itself; a signal that another
// process sends to the launcher is meant for the command.
std::atomic<pid_t> command_pid = 0;  // 0: it has ended
std::atomic<int> stop_signal = 0;    // a later signal, which asks to stop packing

// The second such signal ends the launcher at once, because packing may be waiting for a slow disk.
// Killing a packer loses nothing.
void stop_packing(int signal) {
  if (signal != SIGINT && signal != SIGQUIT && signal != SIGTERM && signal != SIGHUP) return;
  stop_signal = signal;
  ::signal(signal, SIG_DFL);
}

void pass_on(int signal, siginfo_t* info, void*) {
  const int saved_errno = errno;
  const pid_t command = command_pid;
  const bool from_a_process = info->si_code <= 0;
  if (command == 0) {
    stop_packing(signal);
  } else if (from_a_process && info->si_pid != command) {
    kill(command, signal);
  }
  errno = saved_errno;
}

class SignalsPassedOn {
 public:
  explicit SignalsPassedOn(pid_t child) {
    command_pid = child;
    stop_signal = 0;
    for (size_t i = 0; i < std::size(kPassedSignals); ++i) {
      sigaction(kPassedSignals[i], nullptr, &before_[i]);
      if (before_[i].sa_handler == SIG_IGN) continue;
      struct sigaction action{};
      action.sa_sigaction = pass_on;
      action.sa_flags = SA_SIGINFO | SA_RESTART;
      sigaction(kPassedSignals[i], &action, nullptr);
    }
  }
  ~SignalsPassedOn() {
    for (size_t i = 0; i < std::size(kPassedSignals); ++i)
      sigaction(kPassedSignals[i], &before_[i], nullptr);
  }

 private:
  struct sigaction before_[std::size(kPassedSignals)] = {};
};

// Packs periodically, at the lowest priority: the cores belong to the command. REQUIRES: signals
// are blocked during construction; its thread must not take them.
class BackgroundPacking {
 public:
  explicit BackgroundPacking(Packer& packer) : thread_([this, &packer] { run(packer); }) {}

  ~BackgroundPacking() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }

 private:
  void run(Packer& packer) {
    setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), 19);
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, kPackInterval, [this] { return stopping_; })) {
      lock.unlock();
      // A failure (a full disk, no memory) is retried at the end and reported then.
      try {
        static_cast<void>(packer.pack_available().ok());
      } catch (const std::bad_alloc&) {
      }
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;
};

// Clears the command's PID before the system can reuse it. Only this thread handles signals, so
// none can be on its way to the old PID.
Result<int> wait_for(pid_t child) {
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

// Waits for the command. If it cannot record itself, adds it to the trace.
Result<int> wait_for_command(const LaunchOptions& options, pid_t child,
                             const std::filesystem::path& session) {
  const std::string program = find_program(options.command[0]);
  if (options.all_calls || !why_no_library(program)) return wait_for(child);
  std::error_code ignored;
  UnseenCommand command(session, child, std::filesystem::absolute(program, ignored).native(),
                        options.command);
  Result<int> status = wait_for(child);
  if (status.ok()) command.end(*status);
  return status;
}

// Adds the losses counted in the session's page and in the pages of its processes.
void read_session_losses(const std::filesystem::path& session, LaunchOutcome& outcome) {
  const auto directory = SessionDirectory::open(session);
  if (!directory.ok()) return;
  outcome.lost_events += directory->page().lost.events;
  outcome.lost_processes += directory->page().lost_processes;
  for (const std::string& recording : directory->process_recordings()) {
    const auto page = directory->read_process(recording);
    if (page.ok()) outcome.lost_events += page->lost.events;
  }
}

Status pack_rest(Packer& packer, LaunchOutcome& outcome) {
  ASSIGN_OR_RETURN(outcome.packed, packer.finish());
  return {};
}

Result<int> run_and_pack(const LaunchOptions& options, LaunchOutcome& outcome) {
  outcome.packed_file = Packer::default_output(outcome.session);
  auto packer = Packer::open(outcome.session, outcome.packed_file,
                             {.stopped = [] { return stop_signal != 0; }});
  // The watcher of --all starts the command itself and passes its own signal mask on.
  const SignalsHeld held(!options.all_calls);
  ASSIGN_OR_RETURN(const pid_t child, start(options, outcome.session, held));
  Result<int> status = 0;
  {
    const SignalsPassedOn passed_on(child);
    std::optional<BackgroundPacking> background;
    if (packer.ok()) {
      const SignalsHeld held_for_the_thread(true);
      background.emplace(*packer);
    }
    held.release();
    status = wait_for_command(options, child, outcome.session);
    background.reset();
    read_session_losses(outcome.session, outcome);
    const Status packed = packer.ok() ? pack_rest(*packer, outcome) : Status(packer.error());
    if (!packed.ok() && packed.error().code() == Errc::kCancelled) {
      outcome.stopped_by = stop_signal;
    } else if (!packed.ok()) {
      outcome.pack_error = packed.error().message();
    }
  }
  return status;
}

}  // namespace

Result<std::filesystem::path> find_recorder() {
  ASSIGN_OR_RETURN(std::filesystem::path named, library_named_by("MILLRACE_TRACE_LIBRARY"));
  if (!named.empty()) return named;
  auto found = find_own_library("libmillrace_trace.so");
  if (found.ok()) return found;
  return fail(Errc::kNotFound, "the recorder {}; set MILLRACE_TRACE_LIBRARY to its path",
              found.error().message());
}

Result<LaunchOutcome> launch(const LaunchOptions& options) {
  LaunchOutcome outcome;
  ASSIGN_OR_RETURN(outcome.session, make_session(options));
  if (options.pack) {
    auto status = run_and_pack(options, outcome);
    if (!status.ok()) {
      std::error_code error;
      std::filesystem::remove_all(outcome.session, error);  // the command did not run
      std::filesystem::remove(outcome.packed_file, error);
      return status.error();
    }
    outcome.wait_status = *status;
    return outcome;
  }
  const SignalsHeld held(!options.all_calls);
  ASSIGN_OR_RETURN(const pid_t child, start(options, outcome.session, held));
  const SignalsPassedOn passed_on(child);
  held.release();
  ASSIGN_OR_RETURN(outcome.wait_status, wait_for_command(options, child, outcome.session));
  read_session_losses(outcome.session, outcome);
  return outcome;
}

}  // namespace millrace::trace
