// The verb `doctor`: what Millrace can use on this machine.
#include "doctor/doctor.h"

#include <fmt/core.h>
#include <signal.h>

#include <atomic>
#include <cstdlib>
#include <iterator>

#include "base/progress.h"
#include "base/units.h"
#include "cli/inputs.h"
#include "cli/verbs.h"
#include "comm/mpi.h"
#include "doctor/report.h"

namespace millrace::cli {
namespace {

constexpr std::string_view kProbeSizeDefault = "256MiB";

std::atomic<bool> interrupted = false;
std::atomic<int> interrupting_signal = 0;

void note_signal(int signal) {
  interrupting_signal = signal;
  interrupted = true;
}

// While this lives, Ctrl-C, SIGTERM and SIGHUP let the measurement remove its files; then it does
// what the signal would have done. A signal that was ignored (nohup) stays ignored.
class PoliteInterruption {
 public:
  PoliteInterruption() {
    for (size_t i = 0; i < std::size(kSignals); ++i) {
      sigaction(kSignals[i], nullptr, &before_[i]);
      if (before_[i].sa_handler == SIG_IGN) continue;
      struct sigaction action{};
      action.sa_handler = note_signal;
      sigaction(kSignals[i], &action, nullptr);
    }
  }

  ~PoliteInterruption() {
    for (size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &before_[i], nullptr);
    if (interrupting_signal != 0) raise(interrupting_signal);
  }

 private:
  static constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};
  struct sigaction before_[std::size(kSignals)] = {};
};

// For ranks that a launcher has started: whether they reach each other, and over which MPI. The
// check of MPI (doctor/check_mpi.cc) starts two, and knows the line.
Result<int> try_ranks(Output& output) {
  ASSIGN_OR_RETURN(const comm::Launch launch, comm::find_launch(::getenv));
  return with_ranks([&](comm::Comm& comm) -> Result<int> {
    if (comm.size() == 1) {
      return fail(Errc::kInvalidArgument,
                  "--mpi is for ranks that a launcher starts: mpirun -n 2 millrace doctor --mpi");
    }
    RETURN_IF_ERROR(comm.barrier());
    ASSIGN_OR_RETURN(const std::string mpi, comm::describe_mpi(launch));
    if (comm.speaks()) output.print(fmt::format("{} ranks talk over {}\n", comm.size(), mpi));
    return kExitSuccess;
  });
}

Result<int> run_doctor(const Arguments& arguments, Output& output) {
  if (arguments.has("mpi")) return try_ranks(output);
  doctor::DiagnosisOptions options;
  options.measure_speed = !arguments.has("no-speed");
  ASSIGN_OR_RETURN(options.probe_size_bytes,
                   parse_bytes(arguments.value("size").value_or(std::string(kProbeSizeDefault))));
  for (const std::string& directory : arguments.positionals()) {
    options.directories.emplace_back(directory);
  }
  options.cancelled = &interrupted;

  const PoliteInterruption while_measuring;
  doctor::Diagnosis diagnosis;
  {
    Progress progress({.label = "looking at"});
    options.activity = [&](const std::string& subject) { progress.set_activity(subject); };
    ASSIGN_OR_RETURN(diagnosis, doctor::diagnose(options));
  }
  output.print(arguments.has("json") ? doctor::report_json(diagnosis)
                                     : doctor::report_text(diagnosis, output.terminal()));
  return doctor::has_failure(diagnosis) ? kExitFailure : kExitSuccess;
}

}  // namespace

Command doctor_command() {
  return {
      .name = "doctor",
      .summary = "what Millrace can use on this machine, what is missing, and how to fix it",
      .description =
          "Tries what Millrace builds on (the CPU's counter, memory, limits, preload, io_uring, "
          "FUSE, MPI, HDF5) and says of each whether it works here, what is lost where it does not, "
          "and the command that mends it.\n\n"
          "For each directory given it also measures, honestly: writing until the data is on the "
          "device, reading from the page cache, reading from the device with the page cache kept "
          "out, random reads, and small files. This writes a file of --size into the directory and "
          "removes it.\n\n"
          "Exit code 1 means that something failed that should work, or that a directory cannot be "
          "used; what is only missing or limited is no failure.",
      .options = {{.name = "size",
                   .value = "SIZE",
                   .help = "size of the file to measure with (256MiB)",
                   .check = check_bytes},
                  {.name = "no-speed", .help = "look at the directories, but measure nothing"},
                  {.name = "mpi",
                   .help = "under mpirun or srun: only say over which MPI the ranks talk"},
                  json_option()},
      .positionals = {{.name = "DIR",
                       .help = "directories to look at and measure",
                       .kind = ValueKind::kDirectory,
                       .required = false,
                       .repeatable = true}},
      .examples = {{"millrace doctor", "what this machine has and lacks"},
                   {"millrace doctor /tmp /dev/shm", "and how fast these two directories are"},
                   {"mpirun -n 2 millrace doctor --mpi", "whether this mpirun and Millrace fit"},
                   {"millrace doctor --json . | jq .directories[0].speed",
                    "the figures for a program"}},
      .run = run_doctor,
  };
}

}  // namespace millrace::cli
