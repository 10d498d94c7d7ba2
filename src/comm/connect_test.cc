#include "comm/connect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "comm/mpi.h"

namespace millrace::comm {
namespace {

using testing::HasSubstr;

Result<Launch> launch_in(const std::map<std::string, std::string>& environment) {
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

TEST(Connect, LaunchersSayTheirNumberOfRanks) {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"}) {
    const auto several = launch_in({{name, "4"}});
    EXPECT_TRUE(several->by_mpi) << name;
    EXPECT_EQ(several->size, 4u) << name;
    EXPECT_FALSE(launch_in({{name, "1"}})->by_mpi) << name << ": one rank needs no MPI";
  }
}

TEST(Connect, APmixRankWithoutANumberIsOneOfSomeRanks) {
  const auto launch = launch_in({{"PMIX_RANK", "0"}});
  EXPECT_TRUE(launch->by_mpi);
  EXPECT_EQ(launch->size, 0u);
}

TEST(Connect, TheScriptOfABatchJobIsOneRank) {
  EXPECT_FALSE(launch_in({{"SLURM_NTASKS", "64"}, {"SLURM_PROCID", "0"}})->by_mpi);
}

TEST(Connect, TasksOfSrunNeedAWayToReachEachOther) {
  EXPECT_EQ(launch_in({{"SLURM_STEP_NUM_TASKS", "8"}, {"PMIX_RANK", "3"}})->size, 8u);
  EXPECT_TRUE(launch_in({{"SLURM_STEP_NUM_TASKS", "8"}, {"PMI_RANK", "3"}})->by_mpi);
  EXPECT_FALSE(launch_in({{"SLURM_STEP_NUM_TASKS", "1"}})->by_mpi);
  const auto unreachable = launch_in({{"SLURM_STEP_NUM_TASKS", "8"}});
  ASSERT_FALSE(unreachable.ok());
  EXPECT_THAT(unreachable.error().message(), HasSubstr("srun --mpi=pmix"));
}

TEST(Connect, TheUserHasTheLastWord) {
  EXPECT_FALSE(launch_in({{"MILLRACE_COMM", "single"}, {"OMPI_COMM_WORLD_SIZE", "4"}})->by_mpi);
  EXPECT_TRUE(launch_in({{"MILLRACE_COMM", "mpi"}})->by_mpi);
  EXPECT_THAT(launch_in({{"MILLRACE_COMM", "tcp"}}).error().message(),
              HasSubstr("neither single nor mpi"));
}

TEST(Connect, ANumberOfRanksThatIsNoneIsToldByItsName) {
  for (const char* text : {"", "0", "-4", "4 ", "four", "99999999999"}) {
    const auto launch = launch_in({{"PMI_SIZE", text}});
    ASSERT_FALSE(launch.ok()) << text;
    EXPECT_THAT(launch.error().message(), HasSubstr("PMI_SIZE="));
  }
}

TEST(Connect, WithoutALauncherItConnectsAlone) {
  // ctest is no rank. Under a launcher this test would be one.
  if (find_launch([](const char* name) { return getenv(name); })->by_mpi) GTEST_SKIP();
  const auto comm = connect();
  ASSERT_TRUE(comm.ok()) << comm.error().message();
  EXPECT_EQ((*comm)->size(), 1u);
}

TEST(Connect, ABuildWithoutMpiSaysHowToHaveIt) {
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
