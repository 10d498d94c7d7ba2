// The verb `replay`: makes the I/O calls of a trace again, in another directory.
#include "replay/replay.h"

#include <signal.h>

#include <atomic>

#include "base/text/text.h"
#include "cli/options/inputs.h"
#include "cli/options/part_options.h"
#include "cli/verbs.h"
#include "interop/inputs.h"

namespace millrace::cli {
namespace {

std::atomic<bool> is_replay_stopped = false;
static_assert(std::atomic<bool>::is_always_lock_free);  // a signal handler sets it

void stop_replay(int) { is_replay_stopped = true; }

// The first Ctrl-C ends the replay and prints what was done; the second ends the program.
void catch_stop_signals() {
  struct sigaction action{};
  action.sa_handler = stop_replay;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before{};
    sigaction(signal, nullptr, &before);
    if (before.sa_handler != SIG_IGN) sigaction(signal, &action, nullptr);
  }
}

Status check_functions(std::string_view text) {
  RETURN_IF_ERROR(replay::parse_functions(text));
  return {};
}

Status check_size_range(std::string_view text) {
  RETURN_IF_ERROR(replay::parse_size_range(text));
  return {};
}

Status check_root(std::string_view text) {
  if (text.starts_with('/')) return {};
  return fail(Errc::kInvalidArgument, "'{}' is not absolute; names in a trace begin with /",
              printable(text));
}

Result<replay::PlanOptions> plan_options(const Arguments& arguments) {
  replay::PlanOptions options;
  ASSIGN_OR_RETURN(options.selection, part_of(arguments));
  for (const std::string& list : arguments.values("function")) {
    ASSIGN_OR_RETURN(const std::vector<bool> functions, replay::parse_functions(list));
    options.functions.resize(functions.size());
    for (size_t i = 0; i < functions.size(); ++i) {
      if (functions[i]) options.functions[i] = true;
    }
  }
  if (const auto sizes = arguments.value("transfer-size")) {
    ASSIGN_OR_RETURN(const replay::SizeRange range, replay::parse_size_range(*sizes));
    options.size_min = range.min;
    options.size_max = range.max;
  }
  if (const auto list = arguments.value("files-from")) {
    ASSIGN_OR_RETURN(options.files, replay::read_file_list(*list));
  }
  if (const auto root = arguments.value("root")) options.root = replay::clean_path(*root, "/");
  return options;
}

Result<replay::Plan> plan_of(const interop::OpenedJob& job, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const replay::PlanOptions options, plan_options(arguments));
  ASSIGN_OR_RETURN(replay::Plan plan, replay::make_plan(job.trace, options));
  if (!plan.steps.empty()) return plan;
  return fail(Errc::kNotFound, "{}: no call to replay in the selected part", printable(job.title));
}

void warn_of_left(const replay::Prepared& prepared, const std::vector<std::string>& left) {
  if (left.empty()) return;
  warn_of(
      {fmt::format("{}/{}{} not made by this replay, or cannot be removed, and stays",
                   prepared.folder->path(), left.front(),
                   left.size() == 1 ? " was" : fmt::format(" and {} more were", left.size() - 1))});
}

Result<int> run_replay(const Arguments& arguments, Output& output) {
  const std::string path = arguments.positionals().front();
  ASSIGN_OR_RETURN(const interop::OpenedJob job,
                   interop::open_job({.title = path, .paths = {path}}));
  warn_of(job.trace.problems());
  warn_of(job.problems);
  ASSIGN_OR_RETURN(const replay::Plan plan, plan_of(job, arguments));
  catch_stop_signals();
  ASSIGN_OR_RETURN(const replay::Prepared prepared,
                   replay::prepare(plan, {.onto = *arguments.value("onto"),
                                          .fill = arguments.has("fill"),
                                          .drop_cache = arguments.has("drop-cache"),
                                          .only_existing = arguments.has("existing"),
                                          .stop = &is_replay_stopped}));
  const auto timing = arguments.value("timing") == "as-recorded" ? replay::Timing::kAsRecorded
                                                                 : replay::Timing::kFast;
  const auto result = replay::run(plan, prepared, {.timing = timing, .stop = &is_replay_stopped});
  const bool cleans = arguments.has("clean");
  warn_of_left(prepared, replay::clean(plan, prepared,
                                       cleans ? replay::Keep::kNothing : replay::Keep::kInputs));
  if (!result.ok()) return result.error();
  const replay::Replayed replayed{.title = path,
                                  .plan = plan,
                                  .prepared = prepared,
                                  .result = *result,
                                  .timing = timing,
                                  .filled = arguments.has("fill"),
                                  .cleaned = cleans};
  output.print(arguments.has("json") ? replay::report_json(replayed)
                                     : replay::report_text(replayed, output.terminal()));
  return result->failed_here() > 0 || result->is_interrupted ? kExitFailure : kExitSuccess;
}

std::vector<Option> replay_options() {
  const std::vector<Option> how = {
      required(directory_option("onto", "the directory to replay in; created if it is missing")),
      {.name = "timing",
       .value = "HOW",
       .help = "fast: one call after the other (default); as-recorded: at the times of the trace",
       .choices = {"fast", "as-recorded"}}};
  const std::vector<Option> more = {
      {.name = "function",
       .value = "LIST",
       .help = "only these functions or levels, for example read,pread or stdio",
       .check = check_functions,
       .repeatable = true},
      {.name = "transfer-size",
       .value = "MIN..MAX",
       .help = "only reads and writes of these sizes, for example 4KiB..1MiB",
       .check = check_size_range},
      {.name = "root",
       .value = "PATH",
       .help = "only files below this directory of the trace, which becomes DIR",
       .check = check_root},
      file_option("files-from",
                  "only the files that FILE lists, one absolute path of the trace on each line"),
      {.name = "existing", .help = "create and modify nothing: fail if a file is missing in DIR"},
      {.name = "fill", .help = "fill the created files with random bytes, not holes"},
      {.name = "drop-cache", .help = "drop existing files from the page cache before the start"},
      {.name = "clean", .help = "at the end, also remove the files that were created to be read"},
      json_option()};
  return joined({how, part_options(), more});
}

}  // namespace

Command replay_command() {
  return {
      .name = "replay",
      .summary = "make the I/O calls of a trace again, on another file system",
      .description =
          "Makes the calls of a trace again, with the same functions, sizes, offsets and threads, "
          "on files below DIR, and compares their latency and bandwidth with the trace. It answers "
          "how fast this job's I/O would be on another file system, without the job.\n\n"
          "Files that the trace reads are created with the size that they had; existing ones are "
          "used as they are. Every name of the trace is mapped below DIR: the common directory of "
          "all files, or --root, becomes DIR. Created files are sparse; use --fill to measure a "
          "device. Written bytes are random.\n\n"
          "Nothing is changed that the replay has not created itself. A DIR with files of others is "
          "only read. What the calls create is removed at the end.\n\n"
          "Calls that fail as they did in the trace are fine. If a call fails that had succeeded, "
          "the exit code is 1. Ctrl-C ends the replay and prints what was done.",
      .options = replay_options(),
      .positionals = {{.name = "TRACE",
                       .help = "the directory of a trace, one .mrt file, or a DFTracer file",
                       .kind = ValueKind::kFile}},
      .examples =
          {{"millrace replay t/ --onto replayed/ --fill", "as fast as possible, real bytes"},
           {"millrace replay t/ --onto replayed/ --timing as-recorded", "with the job's pauses"},
           {"millrace replay t/ --onto r/ --root /data --ranks 0-3 --from 10s --until 20s",
            "ten seconds of four ranks, only their dataset"},
           {"millrace replay t/ --onto r/ --function read,pread --transfer-size 1MiB.. --json",
            "only large reads, for a program"}},
      .run = run_replay,
  };
}

}  // namespace millrace::cli
