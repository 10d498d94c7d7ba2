// The verb `trace`: runs a command and records what it does.
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <cstdio>

#include "base/phrases.h"
#include "base/spelling.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/verbs.h"
#include "trace/launcher.h"
#include "trace/untraced.h"
#include "wire/launchers.h"
#include "wire/trace_call.h"

namespace millrace::cli {
namespace {

constexpr std::string_view kDirectoryDefault = "millrace-trace";
constexpr int kExitNotFound = 127;  // as shells say it of a command

Result<uint32_t> parse_levels(std::string_view text) {
  uint32_t levels = 0;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view word = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    uint32_t bit = 0;
    std::vector<std::string> known;
    for (size_t level = 1; level < wire::kLevelCount; ++level) {
      known.emplace_back(wire::kLevelNames[level]);
      if (word == wire::kLevelNames[level]) bit = 1u << level;
    }
    if (bit == 0) {
      return fail(Errc::kInvalidArgument, "'{}' is not a level{}; there are {}",
                  printable(std::string(word)), did_you_mean(std::string(word), known),
                  join(known, ", "));
    }
    levels |= bit;
  }
  if (levels == 0) return fail(Errc::kInvalidArgument, "no level is named");
  return levels;
}

Status check_levels(std::string_view text) {
  const auto levels = parse_levels(text);
  return levels.ok() ? Status() : Status(levels.error());
}

bool is_a_rank() {
  return wire::find_launcher([](const char* name) { return std::getenv(name); }) != nullptr;
}

std::string variable_or_empty(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

// What all ranks of one mpirun or srun have in common, and no other run has; empty: the launcher
// says nothing of the kind. PMIx first: below mpirun in a Slurm job, only ranks on other nodes than
// mpirun's own have a step.
std::string run_id() {
  std::string id = variable_or_empty("PMIX_NAMESPACE");
  const std::string step = variable_or_empty("SLURM_STEP_ID");
  if (id.empty() && !step.empty()) id = variable_or_empty("SLURM_JOB_ID") + "." + step;
  const std::string restarts = variable_or_empty("SLURM_RESTART_COUNT");  // a job that was requeued
  return id.empty() || restarts.empty() ? id : id + "-" + restarts;
}

// A trace in a directory: the name of one of its files; empty: there is none.
std::string find_trace(const std::filesystem::path& directory) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    if (entry.path().extension() == ".mrt" || entry.is_directory(error)) {
      return entry.path().filename().string();
    }
  }
  return "";
}

Error holds_another(const std::filesystem::path& directory, const std::string& what) {
  return fail(Errc::kAlreadyExists,
              "{} already holds a trace ({}); give another directory with -o, or --append",
              directory.string(), printable(what));
}

// The ranks of a run share a directory. The first one leaves a link there that names the run: made
// at once with what it says, also on network file systems. Whoever finds another run's refuses.
Status join_run(const std::filesystem::path& directory, const std::string& run) {
  const std::filesystem::path link = directory / ".run";
  std::error_code error;
  if (!std::filesystem::exists(std::filesystem::symlink_status(link, error))) {
    // Of a run that left no link: one without a launcher.
    const std::string before = find_trace(directory);
    std::filesystem::create_directories(directory, error);
    if (before.empty()) std::filesystem::create_symlink(run, link, error);
    const bool has_link = std::filesystem::exists(std::filesystem::symlink_status(link, error));
    if (!has_link && !before.empty()) return holds_another(directory, before);
  }
  const std::filesystem::path found = std::filesystem::read_symlink(link, error);
  if (error || found == run) return {};  // without links, as without a name of the run
  return holds_another(directory, fmt::format("of run {}, and this is {}", found.string(), run));
}

// Refuses to mix two runs. The ranks of one job share a directory, and come and go.
Status check_directory(const std::filesystem::path& directory, bool append) {
  if (append) return {};
  if (is_a_rank()) {
    const std::string run = run_id();
    return run.empty() ? Status() : join_run(directory, run);
  }
  const std::string found = find_trace(directory);
  return found.empty() ? Status() : holds_another(directory, found);
}

// What went wrong is always said; what went well only to somebody who looks.
void tell(const trace::LaunchOutcome& outcome, const trace::LaunchOptions& options) {
  if (outcome.lost_events > 0 || outcome.lost_processes > 0) {
    fmt::print(stderr,
               "millrace: {} and {} could not be recorded; "
               "'millrace info {}' says from when and why\n",
               counted(outcome.lost_events, "event", "events"),
               counted(outcome.lost_processes, "process", "processes"), options.directory.string());
  }
  if (!outcome.pack_error.empty()) {
    fmt::print(stderr,
               "millrace: the recording could not be packed: {}. It can be read as it is; "
               "'millrace pack {}' tries again\n",
               outcome.pack_error, options.directory.string());
  }
  if (outcome.stopped_by != 0) {
    fmt::print(stderr,
               "millrace: packing was stopped; the recording stays and can be read as it is; "
               "'millrace pack {}' finishes it\n",
               options.directory.string());
  }
  if (!inspect_terminal(2).is_terminal) return;
  for (const auto& process : outcome.packed.running) {
    fmt::print(stderr, "millrace: process {} ({}) goes on and is still recorded\n", process.pid,
               process.command);
  }
  fmt::print(stderr, "millrace: the trace is in {}; 'millrace info {}' says what it holds\n",
             options.directory.string(), options.directory.string());
}

// Before it runs: a job of hours should not end with an empty trace.
void warn_of_unseen(const std::string& command) {
  const auto why = trace::why_no_library(trace::find_program(command));
  if (!why) return;
  fmt::print(stderr, "millrace: warning: {} will not be recorded: {}\n", printable(command), *why);
}

// Ends as the command did, so that whoever waits for us sees the same.
int end_like(int wait_status) {
  if (!WIFSIGNALED(wait_status)) return WEXITSTATUS(wait_status);
  const int signal = WTERMSIG(wait_status);
  const rlimit no_core = {0, 0};  // its core is there already
  setrlimit(RLIMIT_CORE, &no_core);
  std::fflush(nullptr);
  ::signal(signal, SIG_DFL);
  raise(signal);
  return 128 + signal;
}

Result<int> run_trace(const Arguments& arguments, Output&) {
  trace::LaunchOptions options;
  options.command = arguments.program();
  options.directory =
      std::filesystem::absolute(arguments.value("output").value_or(std::string(kDirectoryDefault)));
  options.include = arguments.values("include");
  options.exclude = arguments.values("exclude");
  options.pack = !arguments.has("no-pack");
  options.all_calls = arguments.has("all");
  ASSIGN_OR_RETURN(options.levels,
                   parse_levels(arguments.value("levels").value_or("posix,stdio,mpiio,hdf5,app")));
  ASSIGN_OR_RETURN(options.library, trace::find_recorder());
  RETURN_IF_ERROR(check_directory(options.directory, arguments.has("append")));
  if (!options.all_calls) warn_of_unseen(options.command[0]);
  const auto outcome = trace::launch(options);
  if (!outcome.ok()) {
    if (outcome.error().code() != Errc::kNotFound) return outcome.error();
    fmt::print(stderr, "millrace: {}\n", outcome.error().message());
    return kExitNotFound;
  }
  tell(*outcome, options);
  // A signal's number is the wait status of a process that it ended.
  return end_like(outcome->stopped_by != 0 ? outcome->stopped_by : outcome->wait_status);
}

}  // namespace

Command trace_command() {
  return {
      .name = "trace",
      .summary = "run a command and record every I/O call and marked region of it",
      .description =
          "Runs the command and leaves a trace of it and of every process it starts. Exit code, "
          "signals and output are the command's own.\n\n"
          "Recorded are POSIX and stdio calls, MPI-IO, HDF5, and the regions that the program marks "
          "itself (millrace/trace.h, millrace.trace). What could not be recorded is counted and "
          "said.\n\n"
          "Programs are recorded from inside, by a preloaded library, which costs some 70 ns a call. "
          "Static programs and system calls that do not go through the C library are not seen so; "
          "--all watches the POSIX calls of every process from outside instead, at microseconds a "
          "call.\n\n"
          "Globs are matched against absolute paths; '*' also stands for slashes, so that "
          "'/data/*' is everything below /data.\n\n"
          "In a job script the launcher may stand before the program (srun millrace trace -o DIR "
          "-- python train.py), one a rank, all with the same directory; or give the tasks the "
          "variables LD_PRELOAD, with the path of libmillrace_trace.so, and MILLRACE_TRACE_DIR "
          "(srun --export=ALL,MILLRACE_TRACE_DIR=DIR,LD_PRELOAD=FILE), and run 'millrace pack' "
          "afterwards.",
      .options = {{.name = "output",
                   .letter = 'o',
                   .value = "DIR",
                   .help = "where the trace goes (millrace-trace)",
                   .kind = ValueKind::kDirectory},
                  {.name = "include",
                   .value = "GLOB",
                   .help = "record only files that match; may be given again",
                   .repeatable = true},
                  {.name = "exclude",
                   .value = "GLOB",
                   .help = "leave out files that match; may be given again",
                   .repeatable = true},
                  {.name = "levels",
                   .value = "LIST",
                   .help = "what to record: posix,stdio,mpiio,hdf5,app (all)",
                   .check = check_levels},
                  {.name = "all",
                   .help = "see static programs and raw system calls too; slower, by seccomp"},
                  {.name = "append", .help = "the directory may hold a trace already: add to it"},
                  {.name = "no-pack", .help = "leave the recording as it was written"}},
      .runs_program = true,
      .examples = {{"millrace trace -- python train.py", "record a training run"},
                   {"millrace trace -o t --include '/data/*' -- ./train",
                    "only the files of the dataset"},
                   {"mpirun -n 4 millrace trace -o t -- ./train", "every rank, into one trace"}},
      .run = run_trace,
  };
}

}  // namespace millrace::cli
