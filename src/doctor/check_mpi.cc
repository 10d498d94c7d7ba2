#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/system/own_library.h"
#include "base/system/single_copy.h"
#include "base/system/subprocess.h"
#include "base/text/text.h"
#include "doctor/checks.h"
#include "doctor/fix.h"

namespace millrace::doctor {
namespace {

// The question is about this machine, even in a task of srun or mpirun and in the allocation of a
// batch system. With the variables of these, an inner mpirun fails, or waits for ever for resources
// that the outer job has.
const std::vector<std::string_view> kOuterJob = {
    "SLURM_",          "PMI_",         "PMIX_NAMESPACE",   "PMIX_RANK",
    "PMIX_SERVER_",    "PMIX_DSTORE_", "OMPI_COMM_WORLD_", "OMPI_UNIVERSE_SIZE",
    "OMPI_MCA_orte_",  "OMPI_MCA_ess", "MV2_COMM_WORLD_",  "PALS_",
    "TORCHELASTIC_RUN"};

std::string first_line(std::string_view text) { return printable(text.substr(0, text.find('\n'))); }

std::string find_launcher() {
  for (const char* name : {"mpirun", "mpiexec", "srun"}) {
    if (std::string path = find_in_path(name); !path.empty()) return name;
  }
  return {};
}

// The first line with words in it; launchers frame their errors with dashes and empty lines.
std::string first_line_with_words(std::string_view text) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    if (line.find_first_not_of(" -\r") != std::string_view::npos) return first_line(line);
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
  return "it printed nothing";
}

// Hydra, the launcher of MPICH, prints its version on the second line.
std::string version_line(std::string_view text) {
  constexpr std::string_view kField = "Version:";
  const size_t field = text.find(kField);
  if (!text.starts_with("HYDRA") || field == std::string_view::npos) return first_line(text);
  text.remove_prefix(field + kField.size());
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  return "Hydra (MPICH) " + first_line(text);
}

constexpr std::string_view kTalk = " ranks talk over ";  // as cli/doctor.cc prints it

// The first line that contains `words`; empty if there is none.
std::string line_with(std::string_view words, std::string_view text) {
  const size_t at = text.find(words);
  if (at == std::string_view::npos) return {};
  const size_t begin = text.rfind('\n', at) + 1;  // npos + 1 is 0
  return first_line(text.substr(begin));
}

Finding start_failed(Finding finding, const SubprocessResult& result) {
  finding.state = State::kFailed;
  finding.without = "jobs with several ranks cannot be started";
  const bool as_root_refused = geteuid() == 0 && result.output.find("as root") != std::string::npos;
  if (as_root_refused) {
    // A default of Open MPI that one command changes: nothing is broken.
    finding.state = State::kLimited;
    finding.fact += "; refuses to run as root";
    finding.fix = "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1";
  } else {
    finding.fact += fmt::format("; starting 2 ranks failed with exit code {}: {}", result.exit_code,
                                first_line_with_words(result.output));
    finding.fix = "run 'mpirun -n 2 true' to see the whole message";
  }
  return finding;
}

// The launcher works, but Millrace's ranks do not find each other under it.
Finding talk_failed(Finding finding, const std::string& command, const SubprocessResult& result) {
  finding.state = State::kLimited;
  const std::string message = line_with("millrace: ", result.output);
  finding.fact += fmt::format("; starts ranks, but Millrace's ranks cannot connect: {}",
                              message.empty() ? first_line_with_words(result.output) : message);
  finding.without = "everything runs as one rank on one host";
  finding.fix = fmt::format(
      "use the mpirun of an MPI that Millrace can load, or build Millrace on this machine with its "
      "MPI; then try again: {}",
      command);
  return finding;
}

// Millrace sets the variable for its own ranks. Programs that call MPI themselves need it, too.
Finding check_single_copy(Finding finding) {
  if (single_copy_is_allowed() || std::getenv(kSingleCopyVariable) != nullptr) return finding;
  finding.state = State::kLimited;
  finding.fact += "; process_vm_readv is not permitted in this container";
  finding.without =
      "Open MPI prints a line for every large message between ranks of a host, and copies it twice";
  finding.fix = fmt::format("export {}={}, or start the container with --cap-add=SYS_PTRACE",
                            kSingleCopyVariable, kSingleCopyOff);
  return finding;
}

Finding try_two_ranks(Finding finding, const std::string& launcher) {
  std::vector<std::string> two_ranks = {launcher, "-n", "2"};
  const bool is_open_mpi = finding.fact.find("Open MPI") != std::string::npos ||
                           finding.fact.find("OpenRTE") != std::string::npos;
  if (is_open_mpi) two_ranks.emplace_back("--oversubscribe");
  const auto start = [&](const std::vector<std::string>& command) {
    std::vector<std::string> words = two_ranks;
    words.insert(words.end(), command.begin(), command.end());
    return run_subprocess(words,
                          {.timeout = std::chrono::seconds(60), .removed_prefixes = kOuterJob});
  };
  const std::filesystem::path program = own_folder() / "millrace";
  auto ours = start({program.string(), "doctor", "--mpi"});
  if (ours.ok() && ours->exit_code == 0) {
    const std::string talk = line_with(kTalk, ours->output);
    finding.fact += ": " + (talk.empty() ? "2 ranks were started" : talk);
    return is_open_mpi ? check_single_copy(std::move(finding)) : finding;
  }
  const auto plain = start({"true"});
  if (!plain.ok()) {
    finding.state = State::kFailed;
    finding.fact += "; " + plain.error().message();
    finding.without = "jobs with several ranks cannot be started";
    finding.fix = fmt::format("run '{} -n 2 true' to see where it hangs", launcher);
    return finding;
  }
  if (plain->exit_code != 0) return start_failed(std::move(finding), *plain);
  if (!ours.ok()) ours = SubprocessResult{.exit_code = 1, .output = ours.error().message()};
  return talk_failed(std::move(finding), join(two_ranks, " ") + " millrace doctor --mpi", *ours);
}

}  // namespace

std::vector<Finding> check_mpi() {
  Finding finding;
  finding.name = "mpi";
  const std::string launcher = find_launcher();
  if (launcher.empty()) {
    finding.state = State::kMissing;
    finding.fact = "no mpirun, mpiexec or srun in PATH";
    finding.without = "everything runs as one rank on one host";
    finding.fix = "on a cluster, load its MPI module (module load openmpi, or mpich); elsewhere: " +
                  install_command("openmpi-bin", "mpirun");
    return {std::move(finding)};
  }
  if (launcher == "srun") {
    // srun would request nodes from the batch system.
    finding.fact =
        "srun found; not tried, because it would request nodes (to try it: srun --mpi=pmix -n 2 "
        "millrace doctor --mpi)";
    return {std::move(finding)};
  }
  const auto version = run_subprocess({launcher, "--version"});
  finding.fact = version.ok() ? version_line(version->output) : version.error().message();
  return {try_two_ranks(std::move(finding), launcher)};
}

}  // namespace millrace::doctor
