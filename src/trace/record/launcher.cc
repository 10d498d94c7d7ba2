#include "trace/record/launcher.h"

#include <sys/resource.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <new>
#include <optional>
#include <thread>

#include "base/concurrency/mutex.h"
#include "base/system/foreground_command.h"
#include "base/system/own_library.h"
#include "base/text/text.h"
#include "trace/all/all_mode.h"
#include "trace/record/session_directory.h"
#include "trace/record/unseen_command.h"
#include "trace/summary/untraced.h"

namespace millrace::trace {
namespace {

constexpr std::chrono::milliseconds kPackInterval{250};

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

std::string level_list(uint32_t levels) {
  std::vector<std::string> names;
  for (size_t level = 1; level < wire::kLevelCount; ++level) {
    if ((levels >> level & 1) != 0) names.emplace_back(wire::kLevelNames[level]);
  }
  return join(names, ",");
}

// Our environment plus LD_PRELOAD and the recorder's variables (trace/preload/settings.h).
std::vector<std::string> child_environment(const LaunchOptions& options,
                                           const std::filesystem::path& session) {
  std::vector<std::string> entries;
  std::string preload = options.library.string();
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (text.starts_with("LD_PRELOAD=")) {
      preload += fmt::format(":{}", text.substr(std::strlen("LD_PRELOAD=")));
    } else if (text.starts_with("MILLRACE_TRACE_MPI_CLOCK=") ||
               (!text.starts_with("MILLRACE_TRACE_") && !text.starts_with("MILLRACE_TRACE="))) {
      entries.emplace_back(text);
    }
  }
  entries.push_back(fmt::format("LD_PRELOAD={}", preload));
  entries.push_back(fmt::format("MILLRACE_TRACE_DIR={}", options.directory.string()));
  entries.push_back(fmt::format("MILLRACE_TRACE_SESSION={}", session.string()));
  entries.push_back(fmt::format("MILLRACE_TRACE_LEVELS={}", level_list(inside_levels(options))));
  const std::string include = glob_list(options.include);
  const std::string exclude = glob_list(options.exclude);
  if (!include.empty()) entries.push_back(fmt::format("MILLRACE_TRACE_INCLUDE={}", include));
  if (!exclude.empty()) entries.push_back(fmt::format("MILLRACE_TRACE_EXCLUDE={}", exclude));
  return entries;
}

Result<pid_t> start_watched(const LaunchOptions& options,
                            const std::vector<std::string>& environment,
                            const std::filesystem::path& session) {
  return start_with_system_calls({.argv = options.command,
                                  .environment = environment,
                                  .session = session.string(),
                                  .include = glob_list(options.include),
                                  .exclude = glob_list(options.exclude),
                                  .own_libraries = {options.library.string()}});
}

Result<pid_t> start(const LaunchOptions& options, const std::filesystem::path& session,
                    const SignalsHeld& held) {
  const std::vector<std::string> environment = child_environment(options, session);
  if (options.all_calls) return start_watched(options, environment, session);
  return start_command(options.command, environment, held);
}

// Packs periodically, at the lowest priority: the cores belong to the command. REQUIRES: signals
// are blocked during construction; its thread must not take them.
class BackgroundPacking {
 public:
  explicit BackgroundPacking(Packer& packer) : thread_([this, &packer] { run(packer); }) {}

  ~BackgroundPacking() {
    {
      const MutexLock lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }

 private:
  void run(Packer& packer) {
    setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), 19);
    MutexLock lock(mutex_);
    while (!wake_.wait_for(lock, kPackInterval, [this]() REQUIRES(mutex_) { return stopping_; })) {
      lock.unlock();
      // A failure (a full disk, no memory) is retried at the end and reported then.
      try {
        static_cast<void>(packer.pack_available().ok());
      } catch (const std::bad_alloc&) {
      }
      lock.lock();
    }
  }

  Mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

// Waits for the command. If it cannot record itself, adds it to the trace.
Result<int> wait_for_command(const LaunchOptions& options, pid_t child,
                             const std::filesystem::path& session) {
  const std::string program = find_program(options.command[0]);
  if (options.all_calls || !why_no_library(program)) return wait_for_child(child);
  std::error_code ignored;
  UnseenCommand command(session, child, std::filesystem::absolute(program, ignored).native(),
                        options.command);
  Result<int> status = wait_for_child(child);
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
                             {.stopped = [] { return signal_after_command() != 0; }});
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
      outcome.stopped_by = signal_after_command();
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
      remove_session(outcome.session);  // the command did not run
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
