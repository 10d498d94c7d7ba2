#include "wire/launchers.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace millrace::wire {
namespace {

using Environment = std::map<std::string, std::string>;

auto variables_of(const Environment& environment) {
  return [&environment](const char* name) {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  };
}

RankTeller innermost(const Environment& environment) {
  const Launcher* launcher = find_launcher(variables_of(environment));
  return launcher == nullptr ? RankTeller::kNobody : launcher->id;
}

RankTeller around_it(const Environment& environment) {
  const auto variable = variables_of(environment);
  const Launcher* launcher = find_launcher(variable, find_launcher(variable));
  return launcher == nullptr ? RankTeller::kNobody : launcher->id;
}

Environment operator+(Environment a, const Environment& b) {
  a.insert(b.begin(), b.end());
  return a;
}

// As set by Slurm 22.05, Open MPI 4.1 and torch 1.13.
const Environment kBatchScript = {
    {"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "3"}, {"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}};
const Environment kSrun = {{"SLURM_JOB_ID", "7"},         {"SLURM_NTASKS", "3"},
                           {"SLURM_PROCID", "1"},         {"SLURM_LOCALID", "0"},
                           {"SLURM_STEP_ID", "0"},        {"SLURM_STEP_NUM_TASKS", "3"},
                           {"SLURM_STEP_NUM_NODES", "3"}, {"SLURM_STEP_TASKS_PER_NODE", "1(x3)"}};
const Environment kPmixOfSrun = {{"PMIX_RANK", "1"}, {"PMIX_NAMESPACE", "slurm.pmix.7.0"}};
const Environment kMpirun = {{"OMPI_COMM_WORLD_RANK", "1"},
                             {"OMPI_COMM_WORLD_SIZE", "3"},
                             {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                             {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"},
                             {"PMIX_RANK", "1"},
                             {"PMIX_NAMESPACE", "2068119553"}};
const Environment kTorchrunWorker = {{"RANK", "3"},       {"WORLD_SIZE", "6"},
                                     {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "2"},
                                     {"GROUP_RANK", "1"}, {"TORCHELASTIC_RUN_ID", "x"}};

TEST(Launchers, AProcessWithoutALauncherHasNone) {
  EXPECT_EQ(innermost({{"PATH", "/bin"}}), RankTeller::kNobody);
  EXPECT_EQ(innermost({{"RANK", "3"}}), RankTeller::kNobody) << "a rank needs a size";
}

TEST(Launchers, TheScriptOfABatchJobIsNotATask) {
  EXPECT_EQ(innermost(kBatchScript), RankTeller::kNobody);
  EXPECT_EQ(innermost(kSrun), RankTeller::kSlurm);
}

TEST(Launchers, TheInnermostLauncherWins) {
  EXPECT_EQ(innermost(kSrun + kPmixOfSrun), RankTeller::kPmix);
  EXPECT_EQ(innermost(kSrun + kMpirun), RankTeller::kOpenMpi);
  EXPECT_EQ(innermost(kTorchrunWorker), RankTeller::kTorchrun);
  for (const Environment& outer : {kSrun, kSrun + kPmixOfSrun, kMpirun, kSrun + kMpirun}) {
    EXPECT_EQ(innermost(outer + kTorchrunWorker), RankTeller::kTorchrun);
  }
}

TEST(Launchers, FindsTheLauncherAroundTorchrun) {
  EXPECT_EQ(around_it(kTorchrunWorker), RankTeller::kNobody);
  EXPECT_EQ(around_it(kMpirun + kTorchrunWorker), RankTeller::kOpenMpi);
  EXPECT_EQ(around_it(kSrun + kTorchrunWorker), RankTeller::kSlurm);
  EXPECT_EQ(around_it(kSrun + kPmixOfSrun + kTorchrunWorker), RankTeller::kPmix);
}

TEST(Launchers, VariablesSetByHandRankBetweenMpirunAndSrun) {
  const Environment by_hand = {{"RANK", "0"}, {"WORLD_SIZE", "1"}};
  EXPECT_EQ(innermost(by_hand + kMpirun), RankTeller::kOpenMpi);
  EXPECT_EQ(innermost(by_hand + kSrun + kPmixOfSrun), RankTeller::kByHand);
}

TEST(Launchers, MpiTakesItsRanksFromTheLauncherAroundTorchrun) {
  const auto mpi_of = [](const Environment& environment) {
    const Launcher* launcher = find_mpi_launcher(variables_of(environment));
    return launcher == nullptr ? RankTeller::kNobody : launcher->id;
  };
  EXPECT_EQ(mpi_of(kMpirun + kTorchrunWorker), RankTeller::kOpenMpi);
  EXPECT_EQ(mpi_of(kSrun + kPmixOfSrun + kTorchrunWorker), RankTeller::kPmix);
  EXPECT_EQ(mpi_of(kSrun + kTorchrunWorker), RankTeller::kNobody);
}

TEST(Launchers, SrunFillsInWhatPmixDoesNotSet) {
  const Environment environment = kSrun + kPmixOfSrun;
  const auto variable = variables_of(environment);
  const PlaceVariables place = place_variables(*find_launcher(variable), variable);
  EXPECT_STREQ(place.rank, "PMIX_RANK");
  EXPECT_STREQ(place.size, "SLURM_STEP_NUM_TASKS");
  EXPECT_STREQ(place.local_rank, "SLURM_LOCALID");
  EXPECT_STREQ(place.local_size, "SLURM_STEP_TASKS_PER_NODE");
}

TEST(Launchers, SrunFillsInNothingForAnotherTask) {
  Environment environment = kSrun + kPmixOfSrun;
  environment["PMIX_RANK"] = "5";
  const auto variable = variables_of(environment);
  const PlaceVariables place = place_variables(*find_launcher(variable), variable);
  EXPECT_STREQ(place.rank, "PMIX_RANK");
  EXPECT_EQ(place.size, nullptr);
  EXPECT_EQ(place.local_rank, nullptr);
}

}  // namespace
}  // namespace millrace::wire
