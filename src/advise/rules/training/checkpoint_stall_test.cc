#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "advise/testing/shared_jobs.h"
#include "advise/testing/waiting_job.h"
#include "advise/testing/workloads.h"

namespace millrace::advise {
namespace {

using analyze::Profile;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TEST(CheckpointStall, ThreeRanksWaitForOne) {
  const analyze::Profile profile = training_with_checkpoints({});
  ASSERT_THAT(rules_found(profile), ElementsAre("checkpoint-stall"));
  const Finding finding = advise(profile, {}).front();
  EXPECT_THAT(finding.title(), HasSubstr("3 ranks wait while one writes"));
  EXPECT_NEAR(finding.gain.share, 0.25, 0.03);
}

TEST(CheckpointStall, ASingleRankStopsTraining) {
  const analyze::Profile profile = training_with_checkpoints({.ranks = 1});
  ASSERT_THAT(rules_found(profile), ElementsAre("checkpoint-stall"));
  EXPECT_THAT(advise(profile, {}).front().title(), HasSubstr("training stops"));
}

TEST(CheckpointStall, IgnoresFourPercent) {
  EXPECT_THAT(rules_found(training_with_checkpoints({.takes = 500ms})), IsEmpty());
}

// Only parts of a checkpoint are known if it has no region and makes very many calls.
TEST(CheckpointStall, IncludesWritesOfTheLoopToCheckpoints) {
  Profile profile = waiting_job(".bin");
  profile.functions = {function("write", wire::CallKind::kWrite)};
  profile.stalls = {stall("write", "/out/run1")};
  profile.files = {data_file("/out/run1/words.ckpt", kMiB, 0)};
  profile.files[0].kind = analyze::FileKind::kCheckpoint;
  profile.files[0].io.writes = 100'000;
  EXPECT_EQ(first_rule(profile), "loop-stall");  // no checkpoint was seen
  profile.time.job.compute_ns = 2 * kSecondNs;
  profile.checkpoints.resize(2);
  EXPECT_THAT(rules_found(profile), Contains("checkpoint-stall"));
  EXPECT_THAT(rules_found(profile), Not(Contains("loop-stall")));
  profile.files.push_back(data_file("/out/run1/log.txt", kMiB, 0));
  profile.files[1].kind = analyze::FileKind::kOutput;
  profile.files[1].io.writes = 100'001;
  EXPECT_THAT(rules_found(profile), Contains("loop-stall"));
}

}  // namespace
}  // namespace millrace::advise
