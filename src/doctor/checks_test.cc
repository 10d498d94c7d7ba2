#include "doctor/checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <fstream>

#include "base/io/temporary_directory.h"
#include "doctor/doctor.h"

namespace millrace::doctor {
namespace {

using testing::HasSubstr;

// Can replace PATH by a temporary directory; restores it at the end.
class PathTest : public testing::Test {
 protected:
  void SetUp() override { before_ = getenv("PATH"); }
  void TearDown() override { setenv("PATH", before_.c_str(), 1); }

  void use_only_programs_here() { setenv("PATH", directory_.path().c_str(), 1); }

  void add_program(const std::string& name, const std::string& script) {
    const auto path = directory_.path() / name;
    std::ofstream(path) << "#!/bin/sh\n" << script << "\n";
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  }

  TemporaryDirectory directory_ = *TemporaryDirectory::create();
  std::string before_;
};

TEST(Checks, EveryFindingHasAFactAndEveryProblemAFix) {
  for (const Check& check : checks()) {
    for (const Finding& finding : check.run()) {
      EXPECT_FALSE(finding.name.empty());
      EXPECT_FALSE(finding.fact.empty()) << finding.name;
      if (finding.state == State::kReady) continue;
      EXPECT_FALSE(finding.fix.empty()) << finding.name;
      EXPECT_FALSE(finding.without.empty()) << finding.name;
    }
  }
}

TEST(Checks, PreloadWorks) {
  EXPECT_EQ(check_preload().at(0).state, State::kReady) << check_preload().at(0).fact;
}

TEST(Checks, ALowOpenFileLimitIsReportedWithItsFix) {
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit low{512, before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &low);
  const Finding finding = check_limits().at(0);
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(finding.state, State::kLimited);
  EXPECT_THAT(finding.fact, HasSubstr("512"));
  EXPECT_EQ(finding.fix, "ulimit -n $(ulimit -H -n)");
}

TEST_F(PathTest, NoLauncherMeansMpiIsMissing) {
  use_only_programs_here();
  const Finding finding = check_mpi().at(0);
  EXPECT_EQ(finding.state, State::kMissing);
  EXPECT_THAT(finding.fix, HasSubstr("load its MPI module"));
  EXPECT_THAT(finding.fix, HasSubstr("install what provides mpirun (on Debian: openmpi-bin)"));
}

TEST_F(PathTest, RanksThatTalkAreReadyAndNameTheirMpi) {
  add_program("mpirun",
              "[ \"$1\" = --version ] && echo 'Some MPI 1.2' && exit 0\n"
              "echo a warning; [ \"$4\" = doctor ] && [ \"$5\" = --mpi ] && "
              "echo '2 ranks talk over Some MPI 1.2 (/lib/libmpi.so)'");
  use_only_programs_here();
  const Finding finding = check_mpi().at(0);
  EXPECT_EQ(finding.state, State::kReady);
  EXPECT_EQ(finding.fact, "Some MPI 1.2: 2 ranks talk over Some MPI 1.2 (/lib/libmpi.so)");
}

TEST_F(PathTest, AnMpiThatMillraceCannotUseIsLimitedWithTheReason) {
  add_program("mpirun",
              "[ \"$1\" = --version ] && echo 'Some MPI 1.2' && exit 0\n"
              "[ \"$3\" = true ] && exit 0\n"
              "echo 'millrace: no MPI can be used'; exit 1");
  use_only_programs_here();
  const Finding finding = check_mpi().at(0);
  EXPECT_EQ(finding.state, State::kLimited);
  EXPECT_THAT(finding.fact, HasSubstr("cannot connect: millrace: no MPI can be used"));
  EXPECT_THAT(finding.fix, HasSubstr("try again: mpirun -n 2 millrace doctor --mpi"));
}

TEST_F(PathTest, ATaskOfAnotherLauncherAsksAboutThisMachine) {
  setenv("SLURM_JOB_ID", "7", 1);
  setenv("PMIX_RANK", "0", 1);
  add_program("mpirun",
              "[ \"$1\" = --version ] && echo 'Some MPI 1.2' && exit 0\n"
              "echo \"in the job:$SLURM_JOB_ID$PMIX_RANK\"; [ -z \"$SLURM_JOB_ID$PMIX_RANK\" ]");
  use_only_programs_here();
  const Finding finding = check_mpi().at(0);
  unsetenv("SLURM_JOB_ID");
  unsetenv("PMIX_RANK");
  EXPECT_EQ(finding.state, State::kReady) << finding.fact;
}

TEST_F(PathTest, TheVersionOfHydraIsFound) {
  add_program("mpirun",
              "[ \"$1\" = --version ] && echo 'HYDRA build details:' && "
              "echo '    Version:                4.0.2'; exit 0");
  use_only_programs_here();
  EXPECT_THAT(check_mpi().at(0).fact, HasSubstr("Hydra (MPICH) 4.0.2: 2 ranks were started"));
}

TEST_F(PathTest, ALauncherThatCannotStartRanksIsAFailure) {
  add_program("mpirun",
              "[ \"$1\" = --version ] && echo 'Some MPI 1.2' && exit 0\n"
              "echo ------; echo no slots; exit 7");
  use_only_programs_here();
  const Finding finding = check_mpi().at(0);
  EXPECT_EQ(finding.state, State::kFailed);
  EXPECT_THAT(finding.fact, HasSubstr("failed with exit code 7: no slots"));
}

TEST_F(PathTest, OpenMpiRefusingRootIsOnlyLimited) {
  if (geteuid() != 0) GTEST_SKIP() << "only root is refused";
  add_program("mpirun",
              "[ \"$1\" = --version ] && echo 'mpirun (Open MPI) 4.1.4' && exit 0\n"
              "echo mpirun has detected an attempt to run as root.; exit 1");
  use_only_programs_here();
  const Finding finding = check_mpi().at(0);
  EXPECT_EQ(finding.state, State::kLimited);
  EXPECT_THAT(finding.fix, HasSubstr("OMPI_ALLOW_RUN_AS_ROOT=1"));
}

TEST(Diagnose, CancelledReturnsTheReason) {
  const std::atomic<bool> cancelled = true;
  DiagnosisOptions options;
  options.cancelled = &cancelled;
  EXPECT_EQ(diagnose(options).error().code(), Errc::kCancelled);
}

}  // namespace
}  // namespace millrace::doctor
