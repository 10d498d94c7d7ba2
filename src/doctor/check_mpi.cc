#include <fmt/core.h>
#include <unistd.h>

#include "base/subprocess.h"
#include "base/text.h"
#include "doctor/checks.h"
#include "doctor/mend.h"

namespace millrace::doctor {
namespace {

std::string first_line(std::string_view text) { return printable(text.substr(0, text.find('\n'))); }

std::string find_launcher() {
  for (const char* name : {"mpirun", "mpiexec", "srun"}) {
    if (std::string path = find_in_path(name); !path.empty()) return name;
  }
  return {};
}

// A line of an error that says something; launchers frame theirs with dashes and empty lines.
std::string telling_line(std::string_view text) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    if (line.find_first_not_of(" -\r") != std::string_view::npos) return first_line(line);
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
  return "it said nothing";
}

Finding start_failed(Finding finding, const SubprocessResult& result) {
  finding.state = State::kFailed;
  finding.without = "runs of several ranks cannot be started";
  const bool as_root_refused = geteuid() == 0 && result.output.find("as root") != std::string::npos;
  if (as_root_refused) {
    // A choice of Open MPI's, and one command away: nothing is broken.
    finding.state = State::kLimited;
    finding.fact += "; refuses to run as root";
    finding.mend = "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1";
  } else {
    finding.fact += fmt::format("; starting 2 ranks failed with exit code {}: {}", result.exit_code,
                                telling_line(result.output));
    finding.mend = "mpirun -n 2 true shows the whole message";
  }
  return finding;
}

}  // namespace

std::vector<Finding> check_mpi() {
  Finding finding;
  finding.name = "mpi";
  const std::string launcher = find_launcher();
  if (launcher.empty()) {
    finding.state = State::kMissing;
    finding.fact = "no mpirun, mpiexec or srun in PATH";
    finding.without = "everything runs as one rank on one node";
    finding.mend = install_command("openmpi-bin", "mpirun");
    return {std::move(finding)};
  }
  if (launcher == "srun") {
    // Asking srun to start ranks would ask the batch system for nodes.
    finding.fact = "srun is there; not tried, it would ask for nodes";
    return {std::move(finding)};
  }
  const auto version = run_subprocess({launcher, "--version"});
  finding.fact = version.ok() ? first_line(version->output) : version.error().message();
  std::vector<std::string> two_ranks = {launcher, "-n", "2"};
  if (finding.fact.find("Open MPI") != std::string::npos) two_ranks.emplace_back("--oversubscribe");
  two_ranks.emplace_back("true");
  const auto started = run_subprocess(two_ranks, {.timeout = std::chrono::seconds(20)});
  if (!started.ok()) {
    finding.state = State::kFailed;
    finding.fact += "; " + started.error().message();
    finding.without = "runs of several ranks cannot be started";
    finding.mend = fmt::format("{} -n 2 true shows where it hangs", launcher);
    return {std::move(finding)};
  }
  if (started->exit_code != 0) return {start_failed(std::move(finding), *started)};
  finding.fact += ", 2 ranks were started";
  return {std::move(finding)};
}

}  // namespace millrace::doctor
