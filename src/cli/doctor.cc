// The verb `doctor`: what Millrace can use on this machine.
#include "doctor/doctor.h"

#include <fmt/core.h>

#include <cstdlib>

#include "base/system/progress.h"
#include "base/text/units.h"
#include "cli/jobs/interruption.h"
#include "cli/options/inputs.h"
#include "cli/verbs.h"
#include "comm/mpi.h"
#include "doctor/report.h"

namespace millrace::cli {
namespace {

constexpr std::string_view kProbeSizeDefault = "256MiB";

// Checks whether the ranks that a launcher started reach each other, and over which MPI. The check
// of MPI (doctor/check_mpi.cc) starts two ranks, and looks for the printed line.
Result<int> try_ranks(Output& output) {
  ASSIGN_OR_RETURN(const comm::Launch launch, comm::find_launch(::getenv));
  return with_ranks([&](comm::Comm& comm) -> Result<int> {
    if (comm.size() == 1) {
      return fail(Errc::kInvalidArgument,
                  "--mpi needs at least two ranks: mpirun -n 2 millrace doctor --mpi");
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
  options.cancelled = &is_interrupted;

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
          "Checks what Millrace depends on (CPU counter, memory, limits, preload, io_uring, FUSE, "
          "MPI, HDF5): whether it works here, what is lost if not, and the command that fixes "
          "it.\n\n"
          "For each directory given, it also measures: writes until the data is on the device, "
          "reads from the page cache, reads from the device that bypass the page cache, random "
          "reads, and small files. This writes a file of --size into the directory and removes "
          "it.\n\n"
          "Exit code 1 means that something failed that should work, or that a directory cannot be "
          "used. Something that is only missing or limited is not a failure.",
      .options = {size_option("size", "size of the test file (256MiB)"),
                  {.name = "no-speed", .help = "check the directories, but measure no speed"},
                  {.name = "mpi",
                   .help = "under mpirun or srun: only show which MPI the ranks use",
                   .alternatives = {"size", "no-speed", "json"}},
                  json_option()},
      .positionals = {{.name = "DIR",
                       .help = "directories to check and measure",
                       .kind = ValueKind::kDirectory,
                       .required = false,
                       .repeatable = true}},
      .examples = {{"millrace doctor", "what this machine has and lacks"},
                   {"millrace doctor /tmp /dev/shm", "also measure these two directories"},
                   {"mpirun -n 2 millrace doctor --mpi", "whether Millrace works with this mpirun"},
                   {"millrace doctor --json . | jq .directories[0].speed",
                    "the speeds, for a program"}},
      .run = run_doctor,
  };
}

}  // namespace millrace::cli
