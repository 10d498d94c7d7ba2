// Launchers: the variables with which torchrun, mpirun and srun tell a process its rank.
//
// This is the only list of them. The recorder, `millrace trace`, comm::connect and the Python
// package all use it, so that they agree on the rank of a process.
//
// Launchers may be nested: srun or mpirun starts torchrun, which starts the training processes. A
// process then has the variables of all of them. The innermost launcher counts, and the table lists
// the innermost first. docs/design/ranks.md gives the reasons for the order.
#pragma once

#include <cstdint>
#include <iterator>
#include <string_view>

#include "wire/wire.h"

namespace millrace::wire {

// Who set the rank of a process. Recordings store these numbers (docs/formats/recording.md), so a
// number must keep its meaning.
enum class RankTeller : uint32_t {
  kNobody = 0,
  kTorchrun = 1,
  kOpenMpi = 2,
  kMvapich = 3,
  kPals = 4,
  kPmi = 5,
  kByHand = 6,
  kPmix = 7,
  kSlurm = 8,
  kProgram = 64,  // not a launcher: MPI_Init, torch.distributed or the program itself
};

// Where the rank of a process comes from. All zeros: unknown.
struct RankOrigin {
  RankTeller told_by;
  RankTeller outer_by;  // the launcher that started that one; kNobody: none
  int32_t outer_rank;   // the rank of the outer launcher that this process belongs to
};
static_assert(sizeof(RankOrigin) == 12);

// The variables of one launcher. An empty name means that it sets no such variable.
struct Launcher {
  RankTeller id;
  std::string_view name;
  const char* rank;
  const char* size;
  const char* local_rank;  // the rank within its node
  const char* local_size;
  const char* mark;  // must be set too, because other programs use the other names
  bool starts_mpi;   // MPI_Init takes its ranks from this launcher
};

inline constexpr Launcher kLaunchers[] = {
    {RankTeller::kTorchrun, "torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
     "TORCHELASTIC_RUN_ID", false},
    {RankTeller::kOpenMpi, "mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", "", true},
    {RankTeller::kMvapich, "mpirun", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE",
     "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE", "", true},
    {RankTeller::kPals, "mpiexec", "PALS_RANKID", "PMI_SIZE", "PALS_LOCAL_RANKID",
     "PALS_LOCAL_SIZE", "", true},
    // MPICH, Intel MPI, and srun --mpi=pmi2.
    {RankTeller::kPmi, "mpiexec", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "",
     true},
    // Exported by a script, or by another tool that starts PyTorch. After the MPIs, because a
    // script may export one value for all ranks.
    {RankTeller::kByHand, "RANK", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "",
     false},
    {RankTeller::kPmix, "PMIx", "PMIX_RANK", "", "", "", "", true},
    // Not SLURM_NTASKS: the script of a batch job also has it, and SLURM_PROCID=0, but is not a
    // task.
    {RankTeller::kSlurm, "srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID",
     "SLURM_STEP_TASKS_PER_NODE", "", false},
};
inline constexpr const Launcher& kSlurmLauncher = kLaunchers[std::size(kLaunchers) - 1];
static_assert(kSlurmLauncher.id == RankTeller::kSlurm);

// The innermost launcher that started this process, or null; with `inner`, the next one outside it.
// `variable(name)` returns a value or null, like std::getenv.
template <typename Variable>
const Launcher* find_launcher(const Variable& variable, const Launcher* inner = nullptr) {
  const auto is_there = [&](const char* name) {
    return *name == '\0' || variable(name) != nullptr;
  };
  for (const Launcher& launcher : kLaunchers) {
    if (inner != nullptr && &launcher <= inner) continue;
    if (inner != nullptr && launcher.rank == std::string_view(inner->rank)) continue;
    if (is_there(launcher.rank) && is_there(launcher.size) && is_there(launcher.mark)) {
      return &launcher;
    }
  }
  return nullptr;
}

// The innermost launcher that MPI_Init takes its ranks from, or null.
template <typename Variable>
const Launcher* find_mpi_launcher(const Variable& variable) {
  const Launcher* found = find_launcher(variable);
  while (found != nullptr && !found->starts_mpi) found = find_launcher(variable, found);
  return found;
}

// The names of the variables with the rank of a process and the world size. Null: no variable.
struct PlaceVariables {
  const char* rank = nullptr;
  const char* size = nullptr;
  const char* local_rank = nullptr;
  const char* local_size = nullptr;
};

// Variables that the launcher does not set are taken from srun if it started the same task: srun
// --mpi starts the ranks of PMI and PMIx.
template <typename Variable>
PlaceVariables place_variables(const Launcher& launcher, const Variable& variable) {
  const auto value = [&](const char* name) {
    return *name == '\0' ? nullptr : static_cast<const char*>(variable(name));
  };
  const auto is_equal = [&](const char* a, const char* b) {
    return value(a) != nullptr && value(b) != nullptr && std::string_view(value(a)) == value(b);
  };
  const bool is_task_of_srun =
      is_equal(launcher.rank, kSlurmLauncher.rank) && value(kSlurmLauncher.size) != nullptr &&
      (*launcher.size == '\0' || is_equal(launcher.size, kSlurmLauncher.size));
  const bool has_place = value(launcher.local_rank) != nullptr;
  const auto choose = [&](const char* own, const char* of_srun, bool own_counts) -> const char* {
    if (own_counts && value(own) != nullptr) return own;
    return is_task_of_srun && value(of_srun) != nullptr ? of_srun : nullptr;
  };
  return {.rank = launcher.rank,
          .size = choose(launcher.size, kSlurmLauncher.size, true),
          .local_rank = choose(launcher.local_rank, kSlurmLauncher.local_rank, has_place),
          .local_size = choose(launcher.local_size, kSlurmLauncher.local_size, has_place)};
}

}  // namespace millrace::wire
