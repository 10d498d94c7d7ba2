#include "comm/connect.h"

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "base/text/text.h"
#include "comm/mpi.h"
#include "comm/process_comm.h"
#include "comm/single.h"
#include "wire/launchers.h"

namespace millrace::comm {
namespace {

using Variable = std::function<const char*(const char*)>;

Result<uint32_t> read_size(const char* name, std::string_view text) {
  uint32_t size = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
  if (error != std::errc() || end != text.data() + text.size() || size == 0) {
    return fail(Errc::kInvalidArgument,
                "{}={} is not a number of ranks; unset it, or set MILLRACE_COMM=single", name,
                printable(text));
  }
  return size;
}

Result<Launch> launch_of(const char* name, const char* text) {
  ASSIGN_OR_RETURN(const uint32_t size, read_size(name, text));
  return Launch{.by_mpi = size > 1, .size = size, .by = fmt::format("{}={}", name, size)};
}

// Advice for a job whose torchrun starts several processes in each task of an outer launcher.
std::string one_process_per_rank(const char* world_size, const char* local_size) {
  return fmt::format(
      "start one process per rank, without torchrun: mpirun -n {} python ..., or srun --mpi=pmix "
      "--ntasks-per-node={} python ...",
      printable(world_size), printable(local_size));
}

// Null if torchrun did not start this process.
const wire::Launcher* find_torchrun(const Variable& variable) {
  const wire::Launcher* inner = wire::find_launcher(variable);
  return inner != nullptr && inner->id == wire::RankTeller::kTorchrun ? inner : nullptr;
}

// How many processes torchrun started in this task; null if only this one.
const char* several_in_a_task(const Variable& variable) {
  const wire::Launcher* torchrun = find_torchrun(variable);
  const char* local_size = torchrun == nullptr ? nullptr : variable(torchrun->local_size);
  return local_size == nullptr || std::strcmp(local_size, "1") == 0 ? nullptr : local_size;
}

// Processes that torchrun starts in one task share its MPI rank. MPI_Init in the second one ends
// the job, and what MPI prints does not name the reason. So the job is refused earlier.
Status check_torchrun(const Variable& variable, const Launch& launch) {
  const wire::Launcher* torchrun = find_torchrun(variable);
  if (torchrun == nullptr) return {};
  const char* world_size = variable(torchrun->size);
  const char* local_size = several_in_a_task(variable);
  const bool is_one_per_task = launch.size == 0 || fmt::format("{}", launch.size) == world_size;
  if (local_size == nullptr && is_one_per_task) return {};
  return fail(Errc::kUnsupported,
              "torchrun started {} processes in tasks of another launcher ({}); MPI has one rank "
              "per task, which two processes cannot share; {}",
              printable(world_size), launch.by,
              one_process_per_rank(world_size, local_size == nullptr ? "N" : local_size));
}

// srun sets the number of tasks even if they cannot reach each other.
Status unreachable(const Variable& variable, const Launch& launch) {
  if (const char* local_size = several_in_a_task(variable)) {
    return fail(Errc::kUnsupported,
                "srun started {} tasks that cannot reach each other, and torchrun {} processes in "
                "each; {}",
                launch.size, printable(local_size),
                one_process_per_rank(variable("WORLD_SIZE"), local_size));
  }
  return fail(Errc::kUnsupported,
              "srun started {} tasks that cannot reach each other; start them with srun --mpi=pmix "
              "(srun --mpi=list shows what is available) or mpirun, or set MILLRACE_COMM=single "
              "for {} jobs of one rank",
              launch.size, launch.size);
}

// Reads the variables of the launchers in src/wire/launchers.h.
Result<Launch> launch_by_environment(const Variable& variable) {
  if (const wire::Launcher* launcher = wire::find_mpi_launcher(variable)) {
    const wire::PlaceVariables place = wire::place_variables(*launcher, variable);
    if (place.size != nullptr) return launch_of(place.size, variable(place.size));
    return Launch{.by_mpi = true,
                  .size = 0,
                  .by = fmt::format("{}={}", launcher->rank, printable(variable(launcher->rank)))};
  }
  const wire::Launcher& srun = wire::kSlurmLauncher;
  if (variable(srun.rank) == nullptr || variable(srun.size) == nullptr) return Launch{};
  ASSIGN_OR_RETURN(Launch launch, launch_of(srun.size, variable(srun.size)));
  if (launch.by_mpi) RETURN_IF_ERROR(unreachable(variable, launch));
  return launch;
}

}  // namespace

Result<Launch> find_launch(const Variable& variable) {
  Launch launch;
  const char* wish = variable("MILLRACE_COMM");
  if (wish == nullptr) {
    ASSIGN_OR_RETURN(launch, launch_by_environment(variable));
  } else if (std::strcmp(wish, "single") == 0) {
    launch.by = "MILLRACE_COMM=single";
  } else if (std::strcmp(wish, "mpi") == 0) {
    launch = {.by_mpi = true, .size = 0, .by = "MILLRACE_COMM=mpi"};
  } else {
    return fail(Errc::kInvalidArgument, "MILLRACE_COMM={} is neither single nor mpi",
                printable(wish));
  }
  const bool in_a_task = wire::find_mpi_launcher(variable) != nullptr;
  if (launch.by_mpi && in_a_task) RETURN_IF_ERROR(check_torchrun(variable, launch));
  return launch;
}

Result<std::unique_ptr<Comm>> connect(const ConnectOptions& options) {
  ASSIGN_OR_RETURN(const Launch launch, find_launch([](const char* name) { return getenv(name); }));
  if (!launch.by_mpi) return of_this_process(single());
  ASSIGN_OR_RETURN(auto comm, connect_mpi(options, launch));
  return of_this_process(std::move(comm));
}

}  // namespace millrace::comm
