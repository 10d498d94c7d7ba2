#include "cli/store/node.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <utility>

#include "base/system/foreground_command.h"
#include "base/system/progress.h"
#include "base/text/phrases.h"
#include "base/text/text.h"
#include "base/text/units.h"
#include "cli/jobs/exit_like.h"
#include "cli/jobs/rank_launch.h"
#include "store/buffer/contents.h"
#include "store/job/job.h"
#include "store/job/node_report.h"
#include "store/job/program_environment.h"
#include "store/order/warm.h"
#include "store/order/warm_order.h"

namespace millrace::cli {
namespace {

namespace fs = std::filesystem;

using store::NodeStatus;

fs::path local_of(const Arguments& arguments) {
  return arguments.value("local").value_or(std::string(store::kLocalDefault));
}

Result<store::ServiceOptions> service_options(const Arguments& arguments) {
  store::ServiceOptions options;
  std::error_code error;
  options.root = arguments.value("at").value_or("");
  options.packs = fs::absolute(arguments.value("pack").value_or(""), error);
  options.local = fs::absolute(local_of(arguments), error);
  options.origin = arguments.value("origin").value_or("");
  options.save = arguments.value("save").value_or("");
  options.buffer_globs = arguments.values("buffer");
  options.is_fast = arguments.has("fast");
  options.thread_count = count_of(arguments, "threads", 0);
  options.replica_count =
      static_cast<uint32_t>(std::min<uint64_t>(count_of(arguments, "replicas", 1), UINT32_MAX));
  options.job = arguments.value("job").value_or("");
  if (const auto capacity = arguments.value("capacity")) {
    ASSIGN_OR_RETURN(options.capacity_bytes, parse_bytes(*capacity));
  }
  return options;
}

// ---- run ----------------------------------------------------------------------------------------

Result<int> run_command_on(const fs::path& node, const fs::path& library,
                           const std::vector<std::string>& command) {
  const SignalsHeld held(true);
  ASSIGN_OR_RETURN(const pid_t child,
                   start_command(command, store::program_environment(node, library), held));
  const SignalsPassedOn passed_on(child);
  held.release();
  return wait_for_child(child);
}

void say(const std::string& line) { fmt::print(stderr, "millrace: store: {}\n", line); }

void print_error(const std::string& text) { fmt::print(stderr, "millrace: {}\n", printable(text)); }

Result<store::Job> start_job(const Arguments& arguments, File watched, bool is_background) {
  store::JobOptions options;
  ASSIGN_OR_RETURN(options.process.service, service_options(arguments));
  options.process.watched = std::move(watched);
  options.process.is_background = is_background;
  if (!is_launched()) {
    ASSIGN_OR_RETURN(options.launcher,
                     store::group_launcher({.hosts = arguments.value("hosts"),
                                            .hostfile = arguments.value("hostfile")}));
  }
  if (!options.launcher.empty()) {
    ASSIGN_OR_RETURN(options.program.words, own_words());
    options.program.environment = launcher_environment();
  }
  return store::start_job(std::move(options));
}

Result<int> store_run(const Arguments& arguments, Output&) {
  ASSIGN_OR_RETURN(const fs::path library, store::find_client_library());
  ASSIGN_OR_RETURN(const store::Job job,
                   start_job(arguments, store::watch_process(::getpid()), false));
  const auto status = run_command_on(job.started.node, library, arguments.program());
  const bool is_saved = store::end_job(job, arguments.has("buffer"), say);
  if (status.ok() && *status == 0 && !is_saved) return kExitFailure;
  if (status.ok()) return exit_like(*status);
  if (status.error().code() != Errc::kNotFound) return status.error();
  fmt::print(stderr, "millrace: {}\n", status.error().message());
  return kExitNotFound;
}

// ---- up and down --------------------------------------------------------------------------------

// The service ends with the session: that of the job script, or of the terminal. Not with our
// parent, which may be a subshell that ends at once: eval "$(millrace store up ...)".
File session_leader() {
  const pid_t leader = ::getsid(0);
  return leader > 0 && leader != ::getpid() ? store::watch_process(leader) : File();
}

}  // namespace

Result<NodeStatus> chosen_node(const Arguments& arguments) {
  return store::choose_node({.node = arguments.value("node"), .local = local_of(arguments)});
}

Result<std::vector<NodeStatus>> listed_nodes(const Arguments& arguments) {
  return store::list_nodes({.node = arguments.value("node"), .local = local_of(arguments)});
}

namespace {

// This process is one that a launcher has started.
Result<int> run_rank(const Arguments& arguments, const fs::path& library) {
  store::RankOptions options;
  ASSIGN_OR_RETURN(options.process.service, service_options(arguments));
  options.on_loss = [](const comm::LostRank& loss) {
    if (loss.speaks) print_error(loss.error.message());
    ::_exit(kExitFailure);
  };
  options.on_failure = print_error;
  options.on_ready = [&](const fs::path& node, const std::string& lines) {
    fmt::print("{}{}", store::shell_exports(node, library), lines);
    std::fflush(stdout);
  };
  options.say = say;
  ASSIGN_OR_RETURN(const bool is_started, store::run_rank(std::move(options)));
  return is_started ? kExitSuccess : kExitFailure;  // otherwise mpirun would end the others
}

Result<int> store_up(const Arguments& arguments, Output& output) {
  ASSIGN_OR_RETURN(const fs::path library, store::find_client_library());
  if (is_launched()) return run_rank(arguments, library);
  ASSIGN_OR_RETURN(const store::Job job, start_job(arguments, session_leader(), true));
  output.print(store::shell_exports(job.started.node, library));
  return kExitSuccess;
}

Result<int> store_down(const Arguments& arguments, Output&) {
  ASSIGN_OR_RETURN(const NodeStatus node, chosen_node(arguments));
  const auto print_log = [](const std::string& text) { fmt::print(stderr, "{}", text); };
  ASSIGN_OR_RETURN(const bool is_saved, store::take_down_job(node, say, print_log));
  return is_saved ? kExitSuccess : kExitFailure;
}

// ---- warm ---------------------------------------------------------------------------------------

// Returns when the order ends: programs read meanwhile.
Result<int> warm_by_order(const NodeStatus& node, const std::string& name, Output& output) {
  if ((node.state.flags & wire::kStoreFast) != 0) {
    return fail(Errc::kInvalidArgument,
                "--order needs a store without --fast, whose files stay where they are");
  }
  File lines;
  if (name == "-") {
    lines = File(::dup(STDIN_FILENO));
  } else {
    ASSIGN_OR_RETURN(lines, File::open(name, O_RDONLY));
  }
  bool is_first = true;
  const auto warn = [&](uint64_t line, const std::string& path) {
    if (!std::exchange(is_first, false)) return;
    say(fmt::format("{}:{}: '{}' is not a file of the store; such lines are left out",
                    printable(name), line, printable(path)));
  };
  ASSIGN_OR_RETURN(
      const auto report,
      store::warm_in_order(node.path, lines, {.on_unknown = warn}).within(printable(name)));
  if (report.read_count == 0) {
    return fail(Errc::kInvalidArgument, "{} names no file of the store; give paths below {}",
                printable(name), printable(node.state.root));
  }
  output.print(fmt::format("{}: {} of {} of the order{}\n", printable(node.state.root),
                           format_exact(report.done_count),
                           counted(report.read_count, "read", "reads"),
                           report.has_ended ? "; the service has ended" : ""));
  return kExitSuccess;
}

Result<int> store_warm(const Arguments& arguments, Output& output) {
  ASSIGN_OR_RETURN(const NodeStatus node, chosen_node(arguments));
  if (const auto order = arguments.value("order")) return warm_by_order(node, *order, output);
  ASSIGN_OR_RETURN(const store::Catalogue catalogue,
                   store::Catalogue::open(node.path / wire::kStoreCatalogueFile));
  ASSIGN_OR_RETURN(const store::ServiceClient client, store::ServiceClient::connect(node.path));
  store::WarmOptions options{.globs = arguments.positionals(), .on_warmed = {}};
  if ((node.state.flags & wire::kStoreFast) != 0) options.kind = wire::StoreRequestKind::kPlace;
  store::WarmReport report;
  {
    const uint64_t total = options.globs.empty() ? catalogue.content_bytes() : 0;
    Progress progress({.label = "warming", .total = total, .counts_bytes = true});
    options.on_warmed = [&](uint64_t bytes) { progress.add(bytes); };
    ASSIGN_OR_RETURN(report, store::warm_node(catalogue, client, options));
  }
  output.print(fmt::format("{}: {} of {} on this node{}\n", printable(node.state.root),
                           counted(report.file_count, "file", "files"),
                           format_bytes(report.size_bytes),
                           report.is_full ? "; the capacity is used up" : ""));
  if (report.failed_count == 0) return kExitSuccess;
  return fail(Errc::kIo, "{} not be made; the log of the service says why: {}",
              counted(report.failed_count, "file could", "files could"),
              printable((node.path / store::kLogFile).string()));
}

// ---- flush --------------------------------------------------------------------------------------

Result<int> store_flush(const Arguments& arguments, Output& output) {
  if (const auto left = arguments.value("left")) {
    ASSIGN_OR_RETURN(const store::BufferContents contents, store::read_buffer(*left));
    if (contents.is_drained) {
      return fail(Errc::kAlreadyExists, "{}: its job runs, and saves its files", printable(*left));
    }
    return store::flush_node(*left, say) ? kExitSuccess : kExitFailure;
  }
  ASSIGN_OR_RETURN(const NodeStatus node, chosen_node(arguments));
  if (arguments.has("wait")) return store::flush_job(node, say) ? kExitSuccess : kExitFailure;
  if (node.state.globs[0] == '\0') return kExitSuccess;
  ASSIGN_OR_RETURN(const store::BufferContents contents,
                   store::read_buffer(store::buffer_of(node.path)));
  for (const store::KeptFile& file : contents.files) output.print(store::kept_text(file) + "\n");
  return contents.files.empty() ? kExitSuccess : kExitFailure;
}

// ---- the actions --------------------------------------------------------------------------------

Status check_warm(const Arguments& arguments) {
  if (!arguments.has("order") || arguments.positionals().empty()) return {};
  return fail(Errc::kInvalidArgument, "GLOB and --order are alternatives; give one");
}

// On which nodes, and how they share the partitions.
std::vector<Option> rank_options() {
  return {{.name = "hosts",
           .value = "LIST",
           .help = "nodes, as mpirun --host takes them (those of the Slurm job)"},
          {.name = "hostfile",
           .value = "FILE",
           .help = "a file with the nodes, as mpirun takes it",
           .kind = ValueKind::kFile,
           .alternatives = {"hosts"}},
          count_option("replicas", "how many nodes hold each partition (1)"),
          {.name = "job",
           .value = "NAME",
           .help = "name of the store's directories, 16 hex digits (random)"}};
}

// What `run` and `up` take.
std::vector<Option> service_flags() {
  const std::vector<Option> own = {
      required(directory_option("pack", "the directory of the pack")),
      {.name = "at",
       .value = "PATH",
       .help = "the path under which programs see the files",
       .kind = ValueKind::kDirectory,
       .required = true},
      directory_option("local", "storage of this node for the files (/dev/shm)"),
      size_option("capacity", "how much of it to use (half of what is free)"),
      directory_option("origin", "the same files on the shared file system (what was packed)"),
      directory_option("save",
                       "the directory of files that programs create below the path (the origin)"),
      {.name = "buffer",
       .value = "GLOB",
       .help = "write such new files to the node's storage first, and copy them when closed",
       .repeatable = true},
      {.name = "fast", .help = "programs read without system calls"},
      count_option("threads", "threads that work (all CPUs)")};
  return joined({own, rank_options()});
}

Command run_action() {
  return {
      .name = "store run",
      .summary = "run a command that sees a pack under a path",
      .description =
          "Starts a service, runs the command with the files of the pack under the path --at, and "
          "takes all down. Exit code and signals are those of the command. Files come to the node's "
          "own storage when they are first opened, and stay there. Without a service, or when the "
          "capacity is used up, files are read from --origin.\n\n"
          "The files of the pack cannot be changed. What programs create below the path is in the "
          "directory --save under the same names, as ordinary files.",
      .options = service_flags(),
      .runs_program = true,
      .examples =
          {{"millrace store run --pack packs/ --at /data/imagenet -- python train.py",
            "the program reads /data/imagenet from memory"},
           {"millrace store run --pack packs/ --at /data --hosts n1,n2 -- mpirun -n 8 ./train",
            "two nodes, each with half of the partitions"}},
      .run = store_run,
  };
}

Command up_action() {
  return {
      .name = "store up",
      .summary = "start the service of a pack, for a job script",
      .description =
          "Starts the service of a pack and prints what programs need in their environment. The "
          "service ends with the session of the script, or with `store down`.",
      .options = service_flags(),
      .examples = {{"eval \"$(millrace store up --pack packs/ --at /data --local /scratch)\"",
                    "in a job script; the files are on the node's disk"}},
      .run = store_up,
  };
}

Command status_action() {
  return {
      .name = "store status",
      .summary = "what the running stores of this node have done",
      .description =
          "Shows the stores that run on this node: the pack, the files on the node, where "
          "files came from, the other nodes, and buffered files that are not saved yet.",
      .options = joined({chosen_node_options(), {json_option()}}),
      .examples = {{"millrace store status", "all stores of this node"}},
      .run = run_status,
  };
}

Command warm_action() {
  const Option order = file_option(
      "order", "the paths that programs will read, in order, one a line; -: standard input");
  return {
      .name = "store warm",
      .summary = "fetch files to this node before programs need them",
      .description =
          "Fetches all files, or those that GLOBs choose.\n\n"
          "With --order, it tells the service what programs will read, and stays until they have: "
          "files are fetched in that order, and the one whose next read is furthest away makes "
          "room. Loaders of Millrace do so themselves.",
      .options = joined({chosen_node_options(), {order}}),
      .positionals = {{.name = "GLOB",
                       .help = "only these paths of the pack; * also matches /",
                       .required = false,
                       .repeatable = true}},
      .examples = {{"millrace store warm 'val/**'", "fetch the validation set now"},
                   {"millrace store warm --order epochs.txt &",
                    "what train.py will read, for a small disk"}},
      .check = check_warm,
      .run = store_warm,
  };
}

Command flush_action() {
  const Option wait{.name = "wait", .help = "return when all buffered files are durable in --save"};
  Option left =
      directory_option("left", "save the files of this buffer, which an earlier job has left");
  left.alternatives = {"node", "local", "wait"};
  return {
      .name = "store flush",
      .summary = "list, or wait for, buffered files that are not saved yet",
      .description =
          "Lists the files of --buffer that are not saved yet. The exit code is 1 if "
          "there are any.",
      .options = joined({chosen_node_options(), {wait, left}}),
      .examples = {{"millrace store flush --wait", "return when all checkpoints are durable"}},
      .run = store_flush,
  };
}

Command down_action() {
  return {
      .name = "store down",
      .summary = "end the service that `up` has started",
      .description =
          "Ends the service of a store, on all its nodes, after buffered files are saved. "
          "The exit code is 1 if some could not be.",
      .options = chosen_node_options(),
      .examples = {{"millrace store down", "end the only store of this node"}},
      .run = store_down,
  };
}

}  // namespace

std::vector<Option> chosen_node_options() {
  return {directory_option("node", "which store (MILLRACE_STORE, or the only one)"),
          directory_option("local", "storage of this node in which it is (/dev/shm)")};
}

std::vector<Command> node_actions() {
  return {run_action(), up_action(), status_action(), warm_action(), flush_action(), down_action()};
}

}  // namespace millrace::cli
