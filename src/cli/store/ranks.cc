#include "cli/store/ranks.h"

#include <fmt/core.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "base/system/subprocess.h"
#include "base/text/text.h"
#include "cli/jobs/rank_launch.h"
#include "comm/connect.h"
#include "comm/lifeline/message.h"
#include "store/service/service_group.h"

namespace millrace::cli {
namespace {

namespace fs = std::filesystem;

// mca_base_env_list itself cannot be combined with mpirun -x.
constexpr char kForwardedVariable[] = "OMPI_MCA_mca_base_env_list_internal";
constexpr std::chrono::milliseconds kAskPatience{2000};

std::string variable_of(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

// ---- the launcher -------------------------------------------------------------------------------

std::vector<std::string> mpirun_words(const Arguments& arguments) {
  std::vector<std::string> words = {"mpirun", "--map-by", "ppr:1:node", "--bind-to", "none"};
  if (const auto hosts = arguments.value("hosts")) {
    words.insert(words.end(), {"--host", *hosts});
  } else {
    words.insert(words.end(), {"--hostfile", *arguments.value("hostfile")});
  }
  // Services that their ranks leave behind go on, but mpirun need not end the ranks.
  words.emplace_back("--enable-recovery");
  for (const char* name : {"MILLRACE_INTERFACE", "MILLRACE_STORE_LIBRARY",
                           "MILLRACE_STORE_PEER_DEADLINE_MS", "MILLRACE_COMM"}) {
    if (std::getenv(name) != nullptr) words.insert(words.end(), {"-x", name});
  }
  words.insert(words.end(), {"-x", store::kGroupTableVariable});
  return words;
}

// --overlap: the services share the nodes with the steps of the job.
std::vector<std::string> srun_words(const std::string& node_count) {
  std::vector<std::string> words = {"srun",
                                    "--overlap",
                                    "--nodes=" + node_count,
                                    "--ntasks=" + node_count,
                                    "--ntasks-per-node=1",
                                    "--cpu-bind=none",
                                    "--kill-on-bad-exit=0",
                                    "--no-kill",
                                    "--input=none"};
  if (variable_of("SLURM_MPI_TYPE").empty()) {
    const auto kinds = run_subprocess({"srun", "--mpi=list"});
    if (kinds.ok() && kinds->output.find("pmix") != std::string::npos) {
      words.emplace_back("--mpi=pmix");
    }
  }
  return words;
}

// The words of this command line for the ranks: `up` with the same options.
Result<std::vector<std::string>> words_for_ranks(const std::string& job) {
  ASSIGN_OR_RETURN(const std::vector<std::string> all, own_words());
  std::vector<std::string> words = {"store", "up"};
  for (size_t i = words.size(); i < all.size() && all[i] != "--"; ++i) {
    const std::string name = all[i].substr(0, all[i].find('='));
    const bool is_left_out = name == "--hosts" || name == "--hostfile" || name == "--job";
    if (!is_left_out) words.push_back(all[i]);
    if (is_left_out && name == all[i]) ++i;  // its value is the next word
  }
  words.insert(words.end(), {"--job", job});
  return words;
}

// Without our own client: the launcher and the services do not read through the store.
std::vector<std::string> launcher_variables() {
  std::vector<std::string> entries = {fmt::format("{}=1", store::kGroupTableVariable)};
  for (const auto& [name, value] : launcher_environment()) {
    if (std::getenv(name.c_str()) == nullptr) entries.push_back(fmt::format("{}={}", name, value));
  }
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (!text.starts_with("LD_PRELOAD=") && !text.starts_with("MILLRACE_STORE=")) {
      entries.emplace_back(text);
    }
  }
  return entries;
}

}  // namespace

Result<std::vector<std::string>> group_launcher(const Arguments& arguments) {
  const auto hosts = arguments.value("hosts");
  if (hosts == "localhost" || is_launched()) return std::vector<std::string>();
  const std::string node_count = variable_of("SLURM_JOB_NUM_NODES");
  const bool is_given = hosts || arguments.has("hostfile");
  const bool in_slurm = !variable_of("SLURM_JOB_ID").empty();
  if (!is_given && in_slurm && std::strtoul(node_count.c_str(), nullptr, 10) > 1) {
    return srun_words(node_count);
  }
  if (!is_given) return std::vector<std::string>();
  if (!find_in_path("mpirun").empty()) return mpirun_words(arguments);
  return fail(Errc::kNotFound, "several nodes need mpirun, which is not in PATH; install Open MPI");
}

Result<store::StartedService> start_group(const Arguments& arguments,
                                          const std::vector<std::string>& launcher, File watched) {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (error) return fail_os(error.value(), "cannot find this program").within("/proc/self/exe");
  const std::string job = arguments.value("job").value_or(store::random_job_name());
  ASSIGN_OR_RETURN(const auto words, words_for_ranks(job));
  const fs::path local =
      fs::absolute(arguments.value("local").value_or(std::string(store::kLocalDefault)), error);
  store::ServiceGroupOptions options{.command = launcher,
                                     .environment = launcher_variables(),
                                     .node = store::nodes_directory(local) / job,
                                     .watched = std::move(watched)};
  options.command.push_back(program.string());
  options.command.insert(options.command.end(), words.begin(), words.end());
  return store::start_service_group(std::move(options));
}

std::pair<std::string, std::string> forwarded_variables(const StoreVariables& variables) {
  std::string list = variable_of(kForwardedVariable);
  const size_t ours = list.find(wire::kStoreVariable);  // of an earlier `up`
  if (ours != std::string::npos) list.resize(ours);
  if (!list.empty() && list.back() != ';') list += ';';
  list +=
      fmt::format("{}={};LD_PRELOAD={}", wire::kStoreVariable, variables.node, variables.preload);
  return {kForwardedVariable, list};
}

// ---- a rank -------------------------------------------------------------------------------------

Result<int> run_rank(store::ServiceProcessOptions options, const std::string& job,
                     const std::function<std::string(const fs::path& node)>& exports) {
  comm::ConnectOptions connecting;
  connecting.on_loss = [](const comm::LostRank& loss) {
    if (loss.speaks) fmt::print(stderr, "millrace: {}\n", printable(loss.error.message()));
    ::_exit(kExitFailure);
  };
  std::unique_ptr<comm::Comm> comm;
  std::string table_lines;
  auto service = store::start_rank_service(
      std::move(options), [&](const std::string& place) -> Result<store::Membership> {
        ASSIGN_OR_RETURN(comm, comm::connect(connecting));
        if (place.empty()) return fail(Errc::kCancelled, "the service could not be started");
        ASSIGN_OR_RETURN(store::PeerTable table, store::exchange_places(*comm, place, job));
        if (std::getenv(store::kGroupTableVariable) != nullptr) {
          table_lines = store::kGroupTableBegin + store::table_text(table) + store::kGroupTableEnd;
        }
        return store::Membership{.table = std::move(table), .own = comm->rank()};
      });
  if (comm == nullptr) return service.error();
  const Status status = comm->agree(service.ok() ? Status() : Status(service.error()));
  if (!status.ok()) {
    if (comm->speaks()) fmt::print(stderr, "millrace: {}\n", printable(status.error().message()));
    if (service.ok()) {
      ::kill(service->pid, SIGTERM);
      ::waitpid(service->pid, nullptr, 0);
    }
    return kExitFailure;
  }
  if (comm->rank() == comm::kFirstRank) {
    fmt::print("{}{}# {} on {} nodes\n", exports(service->node), table_lines, store::kGroupReady,
               comm->size());
    std::fflush(stdout);
  }
  comm.reset();  // from now on the services find each other without MPI
  const int ended = store::attend_rank_service(*service);
  if (WIFSIGNALED(ended)) {
    fmt::print(stderr, "millrace: store: the service of {} was killed by signal {}\n",
               printable(comm::own_name(comm::kFirstRank).host), WTERMSIG(ended));
  }
  return kExitSuccess;  // otherwise mpirun would end the others
}

Result<std::unique_ptr<store::Peers>> find_peers(const fs::path& node, const std::string& table) {
  const auto text = read_file(node / wire::kStorePeersFile);
  if (!text.ok() && table.empty()) return std::unique_ptr<store::Peers>();
  store::PeersOptions options;
  ASSIGN_OR_RETURN(options.table,
                   store::read_table(text.ok() ? *text : table).within(printable(node.string())));
  options.deadline = std::min(store::peer_deadline(), kAskPatience);
  const std::string host = comm::own_name(comm::kFirstRank).host;
  const auto& places = options.table.places;
  for (size_t i = 0; i < places.size(); ++i) {
    if (places[i].host == host) options.own = static_cast<comm::Rank>(i);
  }
  return std::make_unique<store::Peers>(std::move(options));
}

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

}  // namespace millrace::cli
