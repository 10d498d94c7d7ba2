#include "cli/jobs/rank_launch.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/io/file.h"
#include "base/system/subprocess.h"
#include "comm/connect.h"

namespace millrace::cli {

Result<std::vector<std::string>> own_words() {
  ASSIGN_OR_RETURN(const std::string text, read_file("/proc/self/cmdline"));
  std::vector<std::string> words;
  for (size_t at = 0; at < text.size();) {
    words.emplace_back(text.c_str() + at);
    at += words.back().size() + 1;
  }
  if (!words.empty()) words.erase(words.begin());
  return words;
}

bool is_launched() {
  const auto launch = comm::find_launch(::getenv);
  return launch.ok() && launch->by_mpi;
}

Result<std::vector<std::string>> with_launcher(const std::vector<std::string>& words,
                                               uint64_t rank_count) {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return fail_os(error.value(), "cannot find this program").within("/proc/self/exe");
  std::vector<std::string> command;
  if (rank_count > 1) {
    const std::string mpirun = find_in_path("mpirun");
    if (mpirun.empty()) {
      return fail(Errc::kNotFound,
                  "several ranks need mpirun, which is not in PATH; install Open MPI or MPICH");
    }
    command = {mpirun, "-n", std::to_string(rank_count)};
  }
  command.push_back(program.string());
  command.insert(command.end(), words.begin(), words.end());
  return command;
}

std::vector<std::pair<std::string, std::string>> launcher_environment() {
  return {{"OMPI_MCA_rmaps_base_oversubscribe", "1"},
          {"PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"},
          {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
          {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
          {"PRTE_ALLOW_RUN_AS_ROOT", "1"},
          {"PRTE_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}};
}

Result<int> run_again_under_launcher(uint64_t rank_count) {
  ASSIGN_OR_RETURN(const std::vector<std::string> words, own_words());
  ASSIGN_OR_RETURN(const auto command, with_launcher(words, rank_count));
  for (const auto& [name, value] : launcher_environment()) {
    setenv(name.c_str(), value.c_str(), 0);
  }
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  execv(argv[0], argv.data());
  return fail_os(errno, "cannot start mpirun").within(command[0]);
}

}  // namespace millrace::cli
