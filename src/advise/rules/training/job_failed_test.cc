#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "advise/advise.h"
#include "analyze/scan.h"
#include "analyze/testing/trace_builder.h"
#include "base/io/temporary_directory.h"

namespace millrace::advise {
namespace {

using namespace std::chrono_literals;

// A job of two ranks that ended with these exit codes.
std::vector<Finding> findings_of(int32_t first, int32_t second) {
  const TemporaryDirectory directory = *TemporaryDirectory::create();
  analyze::TraceBuilder job(directory.path() / "t.mrt");
  const analyze::Program rank0 = job.program({.rank = 0, .exit_code = first});
  const analyze::Program rank1 = job.program({.rank = 1, .exit_code = second});
  // A failed worker does not count: its rank decides.
  const analyze::Program worker = job.program({.parent_pid = rank0.pid(), .exit_code = 1});
  for (const analyze::Program& program : {rank0, rank1}) {
    program.read("/data/a", {.at = 1ms, .offset = 0, .size = 100});
  }
  worker.read("/data/a", {.at = 2ms, .offset = 0, .size = 100});
  const trace::Trace trace = job.finish();
  return advise(analyze::profile_of(trace), {});
}

TEST(JobFailed, IsTheFirstFindingWithRanksAndExitCode) {
  const auto findings = findings_of(2, 2);
  ASSERT_FALSE(findings.empty());
  EXPECT_EQ(findings.front().rule, "job-failed");
  EXPECT_EQ(findings.front().severity, Severity::kProblem);
  EXPECT_EQ(findings.front().evidence.front().text,
            "2 of 2 ranks ended with a nonzero exit code, the first with 2");
}

TEST(JobFailed, OneRankIsEnough) {
  const auto findings = findings_of(0, 3);
  ASSERT_FALSE(findings.empty());
  EXPECT_EQ(findings.front().evidence.front().text,
            "1 of 2 ranks ended with a nonzero exit code, the first with 3");
}

// Ray ends its workers with exit code 1 when the program is done.
TEST(JobFailed, IsNotReportedIfTheProgramThatStartedTheRanksEndedWell) {
  const auto findings_under = [](const std::string& command, int32_t exit_code, bool is_child) {
    const TemporaryDirectory directory = *TemporaryDirectory::create();
    analyze::TraceBuilder job(directory.path() / "t.mrt");
    const analyze::Program driver = job.program({.command = command, .exit_code = exit_code});
    driver.read("/data/a", {.at = 0ms, .offset = 0, .size = 100});
    const analyze::Program rank =
        job.program({.rank = 0, .parent_pid = is_child ? driver.pid() : 1, .exit_code = 1});
    rank.read("/data/a", {.at = 1ms, .offset = 0, .size = 100});
    return advise(analyze::profile_of(job.finish()), {});
  };
  for (const bool is_child : {true, false}) {
    EXPECT_THAT(findings_under("python train.py", 0, is_child), testing::IsEmpty());
    EXPECT_THAT(findings_under("python train.py", 1, is_child), testing::SizeIs(1));
    EXPECT_THAT(findings_under("bash run.sh", 0, is_child), testing::SizeIs(1));
  }
}

TEST(JobFailed, IsNotReportedForASuccessfulJob) {
  EXPECT_THAT(findings_of(0, 0), testing::IsEmpty());
}

}  // namespace
}  // namespace millrace::advise
