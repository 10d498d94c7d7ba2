#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "advise/testing/waiting_job.h"
#include "advise/testing/workloads.h"

namespace millrace::advise {
namespace {

using analyze::Profile;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(LoopStall, NamesTheCallsOfTheTrainingLoop) {
  Profile profile = waiting_job(".bin");
  profile.functions = {function("fsync", wire::CallKind::kSync)};
  profile.stalls = {stall("fsync", "/out/logs")};
  const Finding finding = first(profile);
  EXPECT_EQ(finding.rule, "loop-stall");
  EXPECT_THAT(finding.title(), HasSubstr("write files (fsync)"));
  EXPECT_THAT(finding.evidence[0].text, HasSubstr("/out/logs"));
  EXPECT_EQ(finding.gain.saved_ns, kSecondNs);
}

TEST(LoopStall, ImportsAndSharedMemoryAreNotTheLoops) {
  Profile profile = waiting_job(".bin");
  profile.stalls = {stall("read", "/usr/lib/python3.11/json"), stall("close", "/dev/shm"),
                    stall("", "")};
  EXPECT_THAT(rules_found(profile, {.cores = kOneCore}), IsEmpty());
  profile.stalls = {stall("read", "/data")};
  profile.stalls[0].phase = "before training";
  EXPECT_THAT(rules_found(profile, {.cores = kOneCore}), IsEmpty());
}

}  // namespace
}  // namespace millrace::advise
