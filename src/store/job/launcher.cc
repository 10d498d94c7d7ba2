#include "store/job/launcher.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/system/subprocess.h"
#include "store/job/program_environment.h"
#include "store/service/node_folder.h"
#include "store/service/service_group.h"

namespace millrace::store {
namespace {

std::vector<std::string> mpirun_words(const JobHosts& hosts) {
  std::vector<std::string> words = {"mpirun", "--map-by", "ppr:1:node", "--bind-to", "none"};
  if (hosts.hosts) {
    words.insert(words.end(), {"--host", *hosts.hosts});
  } else {
    words.insert(words.end(), {"--hostfile", *hosts.hostfile});
  }
  // Services that their ranks leave behind go on, but mpirun need not end the ranks.
  words.emplace_back("--enable-recovery");
  for (const char* name : {"MILLRACE_INTERFACE", "MILLRACE_STORE_LIBRARY",
                           "MILLRACE_STORE_PEER_DEADLINE_MS", "MILLRACE_COMM"}) {
    if (std::getenv(name) != nullptr) words.insert(words.end(), {"-x", name});
  }
  words.insert(words.end(), {"-x", kGroupTableVariable});
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

// Without our own client: the launcher and the services do not read through the store.
std::vector<std::string> launcher_variables(const RankProgram& program) {
  std::vector<std::string> entries = {fmt::format("{}=1", kGroupTableVariable)};
  for (const auto& [name, value] : program.environment) {
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

Result<std::vector<std::string>> group_launcher(const JobHosts& hosts) {
  if (hosts.hosts == "localhost") return std::vector<std::string>();
  const std::string node_count = variable_of("SLURM_JOB_NUM_NODES");
  const bool is_given = hosts.hosts || hosts.hostfile;
  const bool in_slurm = !variable_of("SLURM_JOB_ID").empty();
  if (!is_given && in_slurm && std::strtoul(node_count.c_str(), nullptr, 10) > 1) {
    return srun_words(node_count);
  }
  if (!is_given) return std::vector<std::string>();
  if (!find_in_path("mpirun").empty()) return mpirun_words(hosts);
  return fail(Errc::kNotFound, "several nodes need mpirun, which is not in PATH; install Open MPI");
}

std::vector<std::string> words_for_ranks(const std::vector<std::string>& words,
                                         const std::string& job) {
  std::vector<std::string> out = {"store", "up"};
  for (size_t i = out.size(); i < words.size() && words[i] != "--"; ++i) {
    const std::string name = words[i].substr(0, words[i].find('='));
    const bool is_left_out = name == "--hosts" || name == "--hostfile" || name == "--job";
    if (!is_left_out) out.push_back(words[i]);
    if (is_left_out && name == words[i]) ++i;  // its value is the next word
  }
  out.insert(out.end(), {"--job", job});
  return out;
}

Result<StartedService> start_group(std::vector<std::string> launcher, const RankProgram& program,
                                   const ServiceOptions& options, File watched) {
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return fail_os(error.value(), "cannot find this program").within("/proc/self/exe");
  const std::string job = options.job.empty() ? random_job_name() : options.job;
  const auto words = words_for_ranks(program.words, job);
  launcher.push_back(path.string());
  launcher.insert(launcher.end(), words.begin(), words.end());
  return start_service_group({.command = std::move(launcher),
                              .environment = launcher_variables(program),
                              .node = nodes_directory(options.local) / job,
                              .watched = std::move(watched)});
}

}  // namespace millrace::store
