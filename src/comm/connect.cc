#include "comm/connect.h"

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "base/text.h"
#include "comm/mpi.h"
#include "comm/single.h"

namespace millrace::comm {
namespace {

using Variable = std::function<const char*(const char*)>;

// The number of ranks, as launchers say it to each. Open MPI and PRRTE; MPICH, Intel MPI, Cray and
// Slurm's PMI-2; MVAPICH.
constexpr const char* kSizeVariables[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
                                          "MV2_COMM_WORLD_SIZE"};

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

// srun sets the number of tasks of its step whether or not they can reach each other. The script of
// a batch job has SLURM_NTASKS as well, which therefore says nothing.
Result<Launch> launch_by_slurm(const Variable& variable, const char* tasks) {
  ASSIGN_OR_RETURN(Launch launch, launch_of("SLURM_STEP_NUM_TASKS", tasks));
  const bool reachable = variable("PMIX_RANK") != nullptr || variable("PMI_RANK") != nullptr;
  if (launch.by_mpi && !reachable) {
    return fail(Errc::kUnsupported,
                "srun started {} tasks that cannot reach each other; start them by srun --mpi=pmix "
                "(srun --mpi=list has what there is) or mpirun, or set MILLRACE_COMM=single for {} "
                "runs of one rank",
                launch.size, launch.size);
  }
  return launch;
}

}  // namespace

Result<Launch> find_launch(const Variable& variable) {
  if (const char* wish = variable("MILLRACE_COMM")) {
    if (std::strcmp(wish, "single") == 0) return Launch{.by = "MILLRACE_COMM=single"};
    if (std::strcmp(wish, "mpi") == 0) {
      return Launch{.by_mpi = true, .size = 0, .by = "MILLRACE_COMM=mpi"};
    }
    return fail(Errc::kInvalidArgument, "MILLRACE_COMM={} is neither single nor mpi",
                printable(wish));
  }
  for (const char* name : kSizeVariables) {
    if (const char* text = variable(name)) return launch_of(name, text);
  }
  if (const char* tasks = variable("SLURM_STEP_NUM_TASKS")) return launch_by_slurm(variable, tasks);
  if (const char* rank = variable("PMIX_RANK")) {
    return Launch{.by_mpi = true, .size = 0, .by = fmt::format("PMIX_RANK={}", printable(rank))};
  }
  return Launch{};
}

Result<std::unique_ptr<Comm>> connect(const ConnectOptions& options) {
  ASSIGN_OR_RETURN(const Launch launch, find_launch([](const char* name) { return getenv(name); }));
  if (!launch.by_mpi) return single();
  return connect_mpi(options, launch);
}

}  // namespace millrace::comm
