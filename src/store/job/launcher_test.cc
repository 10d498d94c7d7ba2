#include "store/job/launcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace millrace::store {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;

// Without the variables of a Slurm job, whatever machine this is.
class StoreLauncher : public testing::Test {
 protected:
  void SetUp() override {
    ::unsetenv("SLURM_JOB_ID");
    ::unsetenv("SLURM_JOB_NUM_NODES");
  }
  void TearDown() override { SetUp(); }
};

TEST_F(StoreLauncher, IsNotNeededOnOneNode) {
  EXPECT_THAT(*group_launcher({}), IsEmpty());
  EXPECT_THAT(*group_launcher({.hosts = "localhost", .hostfile = {}}), IsEmpty());
  ::setenv("SLURM_JOB_ID", "7", 1);
  ::setenv("SLURM_JOB_NUM_NODES", "1", 1);
  EXPECT_THAT(*group_launcher({}), IsEmpty());
}

TEST_F(StoreLauncher, IsSrunForTheNodesOfASlurmJob) {
  ::setenv("SLURM_JOB_ID", "7", 1);
  ::setenv("SLURM_JOB_NUM_NODES", "3", 1);
  const auto words = group_launcher({});
  ASSERT_TRUE(words.ok());
  EXPECT_EQ(words->front(), "srun");
  EXPECT_THAT(*words, Contains("--nodes=3"));
  EXPECT_THAT(*group_launcher({.hosts = "localhost", .hostfile = {}}), IsEmpty());
}

TEST_F(StoreLauncher, IsMpirunForHostsAndFilesOfThem) {
  const auto by_hosts = group_launcher({.hosts = "n1,n2", .hostfile = {}});
  if (!by_hosts.ok()) GTEST_SKIP() << by_hosts.error().message();
  EXPECT_EQ(by_hosts->front(), "mpirun");
  EXPECT_THAT(*by_hosts, Contains("n1,n2"));
  EXPECT_THAT(*group_launcher({.hosts = {}, .hostfile = "hosts.txt"}), Contains("hosts.txt"));
}

TEST_F(StoreLauncher, RanksGetTheSameOptionsWithoutHostsAndProgram) {
  EXPECT_THAT(words_for_ranks({"store", "run", "--pack", "p", "--hosts", "n1,n2", "--at=/data",
                               "--job=0", "--hostfile=f", "--fast", "--", "cat", "--hosts"},
                              "7"),
              ElementsAre("store", "up", "--pack", "p", "--at=/data", "--fast", "--job", "7"));
  EXPECT_THAT(words_for_ranks({"store", "up", "--job"}, "7"),
              ElementsAre("store", "up", "--job", "7"));
}

}  // namespace
}  // namespace millrace::store
