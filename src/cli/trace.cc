// The verb `trace`: runs a command and records what it does.
#include <cstdio>

#include "base/text/phrases.h"
#include "base/text/spelling.h"
#include "base/text/text.h"
#include "base/text/units.h"
#include "cli/jobs/exit_like.h"
#include "cli/verbs.h"
#include "trace/record/launcher.h"
#include "trace/summary/untraced.h"
#include "wire/launchers.h"
#include "wire/trace_call.h"

namespace millrace::cli {
namespace {

constexpr std::string_view kDirectoryDefault = "millrace-trace";

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
  if (levels == 0) return fail(Errc::kInvalidArgument, "the list of levels is empty");
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

// An id that all ranks of one mpirun or srun share and no other run has; empty if the launcher
// provides none. PMIx first: under mpirun in a Slurm job, only ranks on other hosts than mpirun's
// own have a step.
std::string run_id() {
  std::string id = variable_or_empty("PMIX_NAMESPACE");
  const std::string step = variable_or_empty("SLURM_STEP_ID");
  if (id.empty() && !step.empty()) id = variable_or_empty("SLURM_JOB_ID") + "." + step;
  const std::string restarts = variable_or_empty("SLURM_RESTART_COUNT");  // set if requeued
  return id.empty() || restarts.empty() ? id : id + "-" + restarts;
}

// The name of a trace file in the directory; empty if there is none.
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
              "{} already holds a trace ({}); choose another directory with -o, or use --append, "
              "also on all nodes of a job that you start on each of them",
              directory.string(), printable(what));
}

// The ranks of a run share a directory. The first one creates a symbolic link there that names the
// run: creation is atomic and includes the target, even on network file systems. A rank that finds
// the link of another run fails.
Status join_run(const std::filesystem::path& directory, const std::string& run) {
  const std::filesystem::path link = directory / ".run";
  std::error_code error;
  if (!std::filesystem::exists(std::filesystem::symlink_status(link, error))) {
    // A trace without a link comes from a run without a launcher.
    const std::string before = find_trace(directory);
    std::filesystem::create_directories(directory, error);
    if (before.empty()) std::filesystem::create_symlink(run, link, error);
    const bool has_link = std::filesystem::exists(std::filesystem::symlink_status(link, error));
    if (!has_link && !before.empty()) return holds_another(directory, before);
  }
  const std::filesystem::path found = std::filesystem::read_symlink(link, error);
  if (error || found == run) return {};  // no links on this file system: as without a run id
  return holds_another(directory, fmt::format("of run {}, and this is {}", found.string(), run));
}

// Fails if the directory holds another run. The ranks of one job share a directory.
Status check_directory(const std::filesystem::path& directory, bool append) {
  if (append) return {};
  if (is_a_rank()) {
    const std::string run = run_id();
    return run.empty() ? Status() : join_run(directory, run);
  }
  const std::string found = find_trace(directory);
  return found.empty() ? Status() : holds_another(directory, found);
}

// Prints problems always, and the rest only on a terminal.
void print_outcome(const trace::LaunchOutcome& outcome, const trace::LaunchOptions& options) {
  if (outcome.lost_events > 0 || outcome.lost_processes > 0) {
    fmt::print(stderr,
               "millrace: {} and {} could not be recorded; "
               "'millrace info {}' shows when and why\n",
               counted(outcome.lost_events, "event", "events"),
               counted(outcome.lost_processes, "process", "processes"), options.directory.string());
  }
  if (!outcome.pack_error.empty()) {
    fmt::print(stderr,
               "millrace: the recording could not be compacted: {}. It can be read as it is; "
               "'millrace compact {}' tries again\n",
               outcome.pack_error, options.directory.string());
  }
  if (outcome.stopped_by != 0) {
    fmt::print(
        stderr,
        "millrace: compaction was interrupted; the recording is kept and can be read as it is; "
        "'millrace compact {}' finishes it\n",
        options.directory.string());
  }
  if (!inspect_terminal(2).is_terminal) return;
  for (const auto& process : outcome.packed.running) {
    fmt::print(stderr,
               "millrace: process {} ({}) is still running and being "
               "recorded\n",
               process.pid, process.command);
  }
  fmt::print(stderr, "millrace: the trace is in {}; 'millrace info {}' shows what it holds\n",
             options.directory.string(), options.directory.string());
}

// Warns before the start: hours of training should not end with an empty trace.
void warn_of_unseen(const std::string& command) {
  const auto why = trace::why_no_library(trace::find_program(command));
  if (!why) return;
  fmt::print(stderr, "millrace: warning: {} will not be recorded: {}\n", printable(command), *why);
}

Result<int> run_trace(const Arguments& arguments, Output&) {
  trace::LaunchOptions options;
  options.command = arguments.program();
  options.directory =
      std::filesystem::absolute(arguments.value("output").value_or(std::string(kDirectoryDefault)));
  options.include = arguments.values("include");
  options.exclude = arguments.values("exclude");
  options.pack = !arguments.has("no-compact");
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
  print_outcome(*outcome, options);
  // The number of a signal is also the wait status of a process that it killed.
  return exit_like(outcome->stopped_by != 0 ? outcome->stopped_by : outcome->wait_status);
}

}  // namespace

Command trace_command() {
  return {
      .name = "trace",
      .summary = "run a command and record its I/O calls and marked regions",
      .description =
          "Runs the command and records a trace of it and of every process it starts. Exit code, "
          "signals and output are those of the command.\n\n"
          "Records POSIX and stdio calls, MPI-IO, HDF5, and the regions that the program marks "
          "(millrace/trace.h, millrace.trace). Events that cannot be recorded are counted and "
          "reported.\n\n"
          "A preloaded library records calls inside the program, at about 70 ns per call. It does "
          "not see static programs and system calls that bypass the C library. With --all, the "
          "POSIX calls of every process are recorded from outside instead, at several microseconds "
          "per call.\n\n"
          "Globs match absolute paths. '*' also matches slashes: '/data/*' is everything below "
          "/data.\n\n"
          "In a job script, start one 'millrace trace' per rank, all with the same directory (srun "
          "millrace trace -o DIR -- python train.py). Or set LD_PRELOAD to the path of "
          "libmillrace_trace.so, and MILLRACE_TRACE_DIR, for the tasks (srun "
          "--export=ALL,MILLRACE_TRACE_DIR=DIR,LD_PRELOAD=FILE), and run 'millrace compact' "
          "afterwards. If you start the job on each node yourself, for example torchrun over ssh, "
          "use --append on all of them: a run without mpirun or srun looks like the next "
          "one.",
      .options =
          {output_option(ValueKind::kDirectory, "directory for the trace (millrace-trace)"),
           {.name = "include",
            .value = "GLOB",
            .help = "record only files that match",
            .repeatable = true},
           {.name = "exclude",
            .value = "GLOB",
            .help = "do not record files that match",
            .repeatable = true},
           {.name = "levels",
            .value = "LIST",
            .help = "what to record: posix,stdio,mpiio,hdf5,app (all)",
            .check = check_levels},
           {.name = "all",
            .help = "record static programs and raw system calls, too, with seccomp; slower"},
           {.name = "append",
            .help =
                "add to the trace that the directory already holds; on every node, if you start the "
                "job on each of them without mpirun or srun"},
           {.name = "no-compact", .help = "leave the recording as it is"}},
      .runs_program = true,
      .examples = {{"millrace trace -- python train.py", "record a training run"},
                   {"millrace trace -o t --include '/data/*' -- ./train",
                    "only the files of the dataset"},
                   {"mpirun -n 4 millrace trace -o t -- ./train", "all ranks, in one trace"}},
      .run = run_trace,
  };
}

}  // namespace millrace::cli
