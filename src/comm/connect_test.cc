#include "comm/connect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "comm/mpi.h"

namespace millrace::comm {
namespace {

using testing::HasSubstr;

using Variables = std::map<std::string, std::string>;

Variables operator+(Variables a, const Variables& b) {
  a.insert(b.begin(), b.end());
  return a;
}

Result<Launch> launch_in(const Variables& environment) {
  return find_launch([&](const char* name) {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

TEST(Connect, WithoutALauncherThereIsOneRank) {
  const auto launch = launch_in({{"PATH", "/bin"}});
  EXPECT_FALSE(launch->by_mpi);
  EXPECT_EQ(launch->size, 1u);
}

TEST(Connect, TheLauncherGivesTheNumberOfRanks) {
  const std::pair<const char*, const char*> launchers[] = {
      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
      {"PMI_RANK", "PMI_SIZE"},
      {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"}};
  for (const auto& [rank, size] : launchers) {
    const auto several = launch_in({{rank, "0"}, {size, "4"}});
    EXPECT_TRUE(several->by_mpi) << size;
    EXPECT_EQ(several->size, 4u) << size;
    EXPECT_FALSE(launch_in({{rank, "0"}, {size, "1"}})->by_mpi) << size << ": no MPI for one rank";
  }
}

TEST(Connect, APmixRankWithoutASizeUsesMpi) {
  const auto launch = launch_in({{"PMIX_RANK", "0"}});
  EXPECT_TRUE(launch->by_mpi);
  EXPECT_EQ(launch->size, 0u);
}

TEST(Connect, TheScriptOfABatchJobIsOneRank) {
  EXPECT_FALSE(launch_in({{"SLURM_NTASKS", "64"}, {"SLURM_PROCID", "0"}})->by_mpi);
}

TEST(Connect, TasksOfSrunNeedAWayToReachEachOther) {
  const Variables task = {{"SLURM_PROCID", "3"}, {"SLURM_STEP_NUM_TASKS", "8"}};
  EXPECT_EQ(launch_in(task + Variables{{"PMIX_RANK", "3"}})->size, 8u);
  EXPECT_TRUE(launch_in(task + Variables{{"PMI_RANK", "3"}, {"PMI_SIZE", "8"}})->by_mpi);
  EXPECT_FALSE(launch_in({{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}})->by_mpi);
  const auto unreachable = launch_in(task);
  ASSERT_FALSE(unreachable.ok());
  EXPECT_THAT(unreachable.error().message(), HasSubstr("srun --mpi=pmix"));
}

// What torchrun --nproc-per-node=2 gives a worker, inside a launcher of three tasks.
const Variables kWorker = {
    {"RANK", "3"},       {"WORLD_SIZE", "6"},       {"LOCAL_RANK", "1"},
    {"GROUP_RANK", "1"}, {"LOCAL_WORLD_SIZE", "2"}, {"TORCHELASTIC_RUN_ID", "x"}};
const Variables kMpirun = {
    {"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "3"}, {"PMIX_RANK", "1"}};
const Variables kSrun = {{"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "3"}};

TEST(Connect, SeveralTorchrunProcessesInOneTaskAreRefusedWithAdvice) {
  for (const Variables& outer : {kMpirun, kSrun + Variables{{"PMIX_RANK", "1"}}}) {
    const auto launch = launch_in(outer + kWorker);
    ASSERT_FALSE(launch.ok());
    EXPECT_THAT(launch.error().message(), HasSubstr("torchrun started 6 processes in tasks of"));
    EXPECT_THAT(launch.error().message(), HasSubstr("mpirun -n 6 python ..."));
    EXPECT_THAT(launch.error().message(), HasSubstr("srun --mpi=pmix --ntasks-per-node=2 python"));
  }
  EXPECT_FALSE(launch_in(kMpirun + kWorker + Variables{{"MILLRACE_COMM", "mpi"}}).ok());
  EXPECT_TRUE(launch_in(kMpirun + kWorker + Variables{{"MILLRACE_COMM", "single"}}).ok());
}

TEST(Connect, TasksOfSrunWithoutPmixAreNotAdvisedToShareARank) {
  const auto launch = launch_in(kSrun + kWorker);
  ASSERT_FALSE(launch.ok());
  EXPECT_THAT(launch.error().message(), HasSubstr("one process per rank, without torchrun"));
  EXPECT_THAT(launch.error().message(), HasSubstr("srun --mpi=pmix --ntasks-per-node=2 python"));
}

TEST(Connect, OneTorchrunProcessPerTaskIsAnMpiRank) {
  Variables worker = kWorker;
  worker["WORLD_SIZE"] = "3";
  worker["LOCAL_WORLD_SIZE"] = "1";
  const auto launch = launch_in(kMpirun + worker);
  ASSERT_TRUE(launch.ok()) << launch.error().message();
  EXPECT_EQ(launch->size, 3u);
  worker["WORLD_SIZE"] = "4";  // another task has two of them
  EXPECT_FALSE(launch_in(kMpirun + worker).ok());
}

TEST(Connect, TorchrunAloneHasNoMpi) {
  const auto launch = launch_in(kWorker);
  ASSERT_TRUE(launch.ok()) << launch.error().message();
  EXPECT_FALSE(launch->by_mpi);
}

TEST(Connect, MillraceCommOverridesTheLauncher) {
  EXPECT_FALSE(launch_in(kMpirun + Variables{{"MILLRACE_COMM", "single"}})->by_mpi);
  EXPECT_TRUE(launch_in({{"MILLRACE_COMM", "mpi"}})->by_mpi);
  EXPECT_THAT(launch_in({{"MILLRACE_COMM", "tcp"}}).error().message(),
              HasSubstr("neither single nor mpi"));
}

TEST(Connect, AnInvalidNumberOfRanksIsNamed) {
  for (const char* text : {"", "0", "-4", "4 ", "four", "99999999999"}) {
    const auto launch = launch_in({{"PMI_RANK", "0"}, {"PMI_SIZE", text}});
    ASSERT_FALSE(launch.ok()) << text;
    EXPECT_THAT(launch.error().message(), HasSubstr("PMI_SIZE="));
  }
}

TEST(Connect, WithoutALauncherItConnectsAlone) {
  // Skipped if this test itself runs under a launcher.
  if (find_launch([](const char* name) { return getenv(name); })->by_mpi) GTEST_SKIP();
  const auto comm = connect();
  ASSERT_TRUE(comm.ok()) << comm.error().message();
  EXPECT_EQ((*comm)->size(), 1u);
}

#ifdef MILLRACE_HAVE_MPI
TEST(Connect, TheLauncherDecidesWhichMpiIsUsed) {
  using testing::ElementsAre;
  const auto in = [](const std::map<std::string, std::string>& environment) {
    return mpis_for([&](const char* name) {
      const auto found = environment.find(name);
      return found == environment.end() ? nullptr : found->second.c_str();
    });
  };
  EXPECT_THAT(in({{"OMPI_COMM_WORLD_SIZE", "2"}, {"PMIX_RANK", "0"}}),
              ElementsAre("Open MPI", "another MPI"));
  EXPECT_THAT(in({{"PMI_SIZE", "2"}, {"PMI_RANK", "0"}}), ElementsAre("MPICH", "another MPI"));
  EXPECT_THAT(in({{"MV2_COMM_WORLD_SIZE", "2"}}), ElementsAre("MPICH", "another MPI"));
  // Slurm starts the ranks of any MPI.
  EXPECT_THAT(in({{"SLURM_STEP_NUM_TASKS", "2"}, {"PMI_SIZE", "2"}}),
              ElementsAre("MPICH", "Open MPI", "another MPI"));
  EXPECT_THAT(in({{"SLURM_STEP_NUM_TASKS", "2"}, {"PMIX_RANK", "0"}}),
              ElementsAre("Open MPI", "MPICH", "another MPI"));
  EXPECT_THAT(in({}), ElementsAre("Open MPI", "MPICH", "another MPI"));
}
#endif

TEST(Connect, ABuildWithoutMpiSaysHowToGetIt) {
#ifdef MILLRACE_HAVE_MPI
  GTEST_SKIP() << "this build has MPI";
#endif
  const auto comm = connect_mpi({}, {.by_mpi = true, .size = 4, .by = "PMI_SIZE=4"});
  ASSERT_FALSE(comm.ok());
  EXPECT_THAT(comm.error().message(), HasSubstr("(PMI_SIZE=4), but this build has no MPI"));
  EXPECT_THAT(comm.error().message(), HasSubstr("libopenmpi-dev"));
}

}  // namespace
}  // namespace millrace::comm
