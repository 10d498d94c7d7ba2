#include "cli/store/node.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <thread>

#include "base/system/foreground_command.h"
#include "base/system/own_library.h"
#include "base/system/progress.h"
#include "base/text/phrases.h"
#include "base/text/text.h"
#include "base/text/units.h"
#include "cli/jobs/exit_like.h"
#include "cli/jobs/rank_launch.h"
#include "cli/store/ranks.h"
#include "store/buffer/drain.h"
#include "store/order/warm.h"
#include "store/order/warm_order.h"
#include "store/service/service_process.h"

namespace millrace::cli {
namespace {

namespace fs = std::filesystem;

using store::NodeStatus;

constexpr std::chrono::seconds kEndPatience{10};
constexpr std::chrono::milliseconds kFlushInterval{50};
constexpr std::chrono::milliseconds kAnnounceAfter{1000};
constexpr std::chrono::seconds kFlushPatience{5};  // with something that fails

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

Result<fs::path> find_client_library() {
  ASSIGN_OR_RETURN(fs::path named, library_named_by("MILLRACE_STORE_LIBRARY"));
  if (!named.empty()) return named;
  auto found = find_own_library("libmillrace_store.so");
  if (found.ok()) return found;
  return fail(Errc::kNotFound, "the store's {}; set MILLRACE_STORE_LIBRARY to its path",
              found.error().message());
}

// After libraries that are there already: the tracer comes first, and sees the program's calls.
std::string preload_with(const fs::path& library) {
  const char* const variable = std::getenv("LD_PRELOAD");
  const std::string before = variable != nullptr ? variable : "";
  if (before.empty() || before == library) return library.string();
  if (before.ends_with(":" + library.string())) return before;  // of an earlier `up`
  return fmt::format("{}:{}", before, library.string());
}

std::vector<std::string> job_environment(const fs::path& node, const fs::path& library) {
  std::vector<std::string> entries;
  const std::string variable = fmt::format("{}=", wire::kStoreVariable);
  const auto forwarded =
      forwarded_variables({.node = node.string(), .preload = preload_with(library)});
  // If there is no service, such as on a login node, the command is an mpirun, and would warn.
  // srun has no list of variables, and passes on its own.
  std::error_code error;
  const bool is_here = fs::exists(node, error) || std::getenv("SLURM_JOB_ID") != nullptr;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const bool is_ours = text.starts_with("LD_PRELOAD=") || text.starts_with(variable);
    if ((!is_here || !is_ours) && !text.starts_with(forwarded.first + "=")) {
      entries.emplace_back(text);
    }
  }
  entries.push_back(fmt::format("{}={}", forwarded.first, forwarded.second));
  if (!is_here) return entries;
  entries.push_back(fmt::format("{}{}", variable, node.string()));
  entries.push_back(fmt::format("LD_PRELOAD={}", preload_with(library)));
  return entries;
}

// ---- run ----------------------------------------------------------------------------------------

Result<int> run_command_on(const fs::path& node, const fs::path& library,
                           const std::vector<std::string>& command) {
  const SignalsHeld held(true);
  ASSIGN_OR_RETURN(const pid_t child, start_command(command, job_environment(node, library), held));
  const SignalsPassedOn passed_on(child);
  held.release();
  return wait_for_child(child);
}

// What the user should know: the job was slower than it could be, or read something else.
void print_losses(const wire::StoreState& state) {
  const wire::StoreCounters& counters = state.counters;
  if (counters.fallbacks != 0) {
    fmt::print(stderr, "millrace: store: {} read from {} instead of the store\n",
               counted(counters.fallbacks, "file was", "files were"), printable(state.origin));
  }
  if (counters.errors != 0) {
    fmt::print(stderr, "millrace: store: {} while files were made or opened\n",
               counted(counters.errors, "error", "errors"));
  }
}

std::string end_text(int wait_status) {
  if (WIFSIGNALED(wait_status)) return fmt::format("killed by signal {}", WTERMSIG(wait_status));
  return fmt::format("exit code {}", WEXITSTATUS(wait_status));
}

void say(const std::string& line) { fmt::print(stderr, "millrace: store: {}\n", line); }

// Says what is waited for, if it takes long.
void announce_copies(const fs::path& buffer) {
  auto contents = store::read_buffer(buffer);
  for (int i = 0; i < kAnnounceAfter / kFlushInterval; ++i) {
    if (!contents.ok() || contents->files.empty()) return;
    std::this_thread::sleep_for(kFlushInterval);
    contents = store::read_buffer(buffer);
  }
  if (!contents.ok() || contents->files.empty()) return;
  say(fmt::format("waiting until {} of {} {} saved in {}",
                  counted(contents->files.size(), "buffered file", "buffered files"),
                  format_bytes(contents->size_bytes), contents->files.size() == 1 ? "is" : "are",
                  printable(contents->owner.upper)));
}

// Waits until all that is in the buffer of this node is durable. Returns whether it is, and names
// what is not.
bool flush_own(const fs::path& buffer) {
  announce_copies(buffer);
  const auto kept = store::flush_buffer(buffer);
  if (!kept.ok()) say(kept.error().message());
  if (!kept.ok()) return false;
  for (const store::KeptFile& file : *kept) say(store::kept_text(file));
  return kept->empty();
}

// Ends the service and removes its folder. Reaps the child, which is ours. Returns whether all that
// the command wrote to the buffer is durable.
bool take_down(const store::StartedService& service) {
  auto node = store::read_node(service.node);
  int status = 0;
  const bool has_ended = ::waitpid(service.pid, &status, WNOHANG) == service.pid;
  if (!has_ended) {
    ::kill(service.pid, SIGTERM);
    announce_copies(store::buffer_of(service.node));
    ::waitpid(service.pid, &status, 0);
  }
  bool is_saved = !WIFEXITED(status) || WEXITSTATUS(status) != store::kExitNotSaved;
  if (has_ended || (status != 0 && is_saved)) {  // it may have been killed a moment ago
    fmt::print(stderr,
               "millrace: store: the service ended before the command ({}); files that were not "
               "there yet were read from the origin, or failed\n",
               end_text(status));
    is_saved = flush_own(store::buffer_of(service.node));
  }
  if (!node.ok()) return is_saved;
  print_losses(node->state);
  node->is_running = false;
  const Status ended = store::end_node(*node, kEndPatience);
  if (!ended.ok()) say(ended.error().message());
  return is_saved;
}

// How the flush of another node ended; nothing if it does not answer.
std::optional<wire::FlushProgress> flush_peer(store::Peers& peers, comm::Rank rank) {
  const auto ticket = peers.ask(rank, wire::PeerKind::kFlush, {});
  auto failing_since = std::chrono::steady_clock::now();
  for (auto answer = ticket; answer.ok();) {
    answer = peers.ask(rank, wire::PeerKind::kFlush, bytes_of(*ticket));
    if (!answer.ok() || answer->size() != 1) break;
    const auto progress = static_cast<wire::FlushProgress>((*answer)[0]);
    const auto now = std::chrono::steady_clock::now();
    if (progress == wire::FlushProgress::kDurable) return progress;
    if (progress == wire::FlushProgress::kRunning) failing_since = now;
    if (now - failing_since > kFlushPatience) return progress;
    std::this_thread::sleep_for(kFlushInterval);
  }
  return std::nullopt;
}

// Waits until the buffers of all nodes of the job are empty. Returns whether they are, and names
// the nodes that are not.
bool flush_peers(const fs::path& node, const std::string& table = {}) {
  const auto peers = find_peers(node, table);
  if (!peers.ok() || *peers == nullptr) return true;
  bool is_saved = true;
  for (uint32_t i = 0; i < (*peers)->size(); ++i) {
    const auto rank = static_cast<comm::Rank>(i);
    const auto progress = flush_peer(**peers, rank);
    if (progress == wire::FlushProgress::kDurable) continue;
    is_saved = false;
    say(fmt::format("{}: {}; see there: millrace store flush --left {}", (*peers)->name_of(rank),
                    progress ? "buffered files cannot be saved now"
                             : "does not answer; buffered files of it may not be saved",
                    printable(store::buffer_of(node).string())));
  }
  return is_saved;
}

// The services of other nodes end with the launcher, which the keeper ends. They have said
// themselves what was lost.
bool take_down_group(const store::StartedService& keeper, bool has_buffer) {
  const bool is_saved = !has_buffer || flush_peers(keeper.node, keeper.table);
  ::kill(keeper.pid, SIGTERM);
  ::waitpid(keeper.pid, nullptr, 0);
  return is_saved;
}

struct NodeServices {
  store::StartedService started;
  bool is_group = false;  // on several nodes
};

Result<NodeServices> start_services(const Arguments& arguments, File watched, bool is_background) {
  store::ServiceProcessOptions options;
  ASSIGN_OR_RETURN(options.service, service_options(arguments));
  ASSIGN_OR_RETURN(const std::vector<std::string> launcher, group_launcher(arguments));
  NodeServices services{.started = {}, .is_group = !launcher.empty()};
  if (services.is_group) {
    ASSIGN_OR_RETURN(services.started, start_group(arguments, launcher, std::move(watched)));
    return services;
  }
  options.watched = std::move(watched);
  options.is_background = is_background;
  ASSIGN_OR_RETURN(services.started, store::start_service_process(std::move(options)));
  return services;
}

Result<int> store_run(const Arguments& arguments, Output&) {
  ASSIGN_OR_RETURN(const fs::path library, find_client_library());
  ASSIGN_OR_RETURN(const NodeServices services,
                   start_services(arguments, store::watch_process(::getpid()), false));
  const auto status = run_command_on(services.started.node, library, arguments.program());
  const bool is_saved = services.is_group
                            ? take_down_group(services.started, arguments.has("buffer"))
                            : take_down(services.started);
  if (status.ok() && *status == 0 && !is_saved) return kExitFailure;
  if (status.ok()) return exit_like(*status);
  if (status.error().code() != Errc::kNotFound) return status.error();
  fmt::print(stderr, "millrace: {}\n", status.error().message());
  return kExitNotFound;
}

// ---- up and down --------------------------------------------------------------------------------

// For a shell: in single quotes, so that nothing in it has a meaning.
std::string shell_quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c;
    }
  }
  return out + "'";
}

// The service ends with the session: that of the job script, or of the terminal. Not with our
// parent, which may be a subshell that ends at once: eval "$(millrace store up ...)".
File session_leader() {
  const pid_t leader = ::getsid(0);
  return leader > 0 && leader != ::getpid() ? store::watch_process(leader) : File();
}

}  // namespace

Result<NodeStatus> chosen_node(const Arguments& arguments) {
  if (const auto given = arguments.value("node")) return store::read_node(*given);
  const char* variable = std::getenv(wire::kStoreVariable);
  if (variable != nullptr && *variable != '\0') {
    return store::read_node(variable).within(wire::kStoreVariable);
  }
  std::vector<NodeStatus> nodes = store::find_nodes(local_of(arguments));
  if (nodes.size() == 1) return std::move(nodes.front());
  if (nodes.empty()) {
    return fail(Errc::kNotFound, "no store is running in {}; start one with `millrace store up`",
                printable(store::nodes_directory(local_of(arguments)).string()));
  }
  std::string known;
  for (const NodeStatus& node : nodes) {
    known += fmt::format("\n  --node {}  ({})", printable(node.path.string()),
                         printable(node.state.root));
  }
  return fail(Errc::kInvalidArgument, "{} stores are running; choose one:{}", nodes.size(), known);
}

Result<std::vector<NodeStatus>> listed_nodes(const Arguments& arguments) {
  const char* variable = std::getenv(wire::kStoreVariable);
  if (!arguments.has("node") && (variable == nullptr || *variable == '\0')) {
    return store::find_nodes(local_of(arguments));
  }
  ASSIGN_OR_RETURN(NodeStatus node, chosen_node(arguments));
  return std::vector<NodeStatus>{std::move(node)};
}

namespace {

Result<int> store_up(const Arguments& arguments, Output& output) {
  ASSIGN_OR_RETURN(const fs::path library, find_client_library());
  const auto exports = [&](const fs::path& node) {
    const auto [name, list] =
        forwarded_variables({.node = node.string(), .preload = preload_with(library)});
    return fmt::format("export {}={}\nexport LD_PRELOAD={}\nexport {}={}\n", wire::kStoreVariable,
                       shell_quoted(node.string()), shell_quoted(preload_with(library)), name,
                       shell_quoted(list));
  };
  if (is_launched()) {
    store::ServiceProcessOptions options;
    ASSIGN_OR_RETURN(options.service, service_options(arguments));
    const std::string job = options.service.job;
    return run_rank(std::move(options), job, exports);
  }
  ASSIGN_OR_RETURN(const NodeServices services, start_services(arguments, session_leader(), true));
  output.print(exports(services.started.node));
  return kExitSuccess;
}

// Waits until all that programs of the job have buffered is durable. Returns whether it is.
bool flush_job(const NodeStatus& node) {
  if (node.state.globs[0] == '\0') return true;
  const bool are_peers_saved = flush_peers(node.path);
  return flush_own(store::buffer_of(node.path)) && are_peers_saved;
}

// Prints what was added to the log since the last call. The file may have been removed meanwhile.
void print_log(const File& log, uint64_t& printed_bytes) {
  char buffer[4096];
  while (log.is_open()) {
    const auto size =
        log.read_at(printed_bytes, std::as_writable_bytes(std::span(buffer, sizeof(buffer))));
    if (!size.ok() || *size == 0) return;
    fmt::print(stderr, "{}", std::string_view(buffer, *size));
    printed_bytes += *size;
  }
}

Result<int> store_down(const Arguments& arguments, Output&) {
  ASSIGN_OR_RETURN(const NodeStatus node, chosen_node(arguments));
  const bool is_saved = flush_job(node);
  uint64_t printed_bytes = 0;
  auto opened = File::open(node.path / store::kLogFile, O_RDONLY);
  const File log = opened.ok() ? *std::move(opened) : File();
  print_log(log, printed_bytes);
  print_losses(node.state);
  ASSIGN_OR_RETURN(const auto peers, find_peers(node.path));
  if (peers != nullptr) {
    for (const auto& [rank, error] : peers->tell_all(wire::PeerKind::kEnd, {})) {
      fmt::print(stderr, "millrace: store: not ended: {}\n", printable(error.message()));
    }
  }
  const Status ended = store::end_node(node, kEndPatience);
  print_log(log, printed_bytes);
  RETURN_IF_ERROR(ended);
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
    return flush_own(*left) ? kExitSuccess : kExitFailure;
  }
  ASSIGN_OR_RETURN(const NodeStatus node, chosen_node(arguments));
  if (arguments.has("wait")) return flush_job(node) ? kExitSuccess : kExitFailure;
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
