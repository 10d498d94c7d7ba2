#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "advise/testing/shared_jobs.h"
#include "advise/testing/workloads.h"

namespace millrace::advise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(FitsMemory, IsReportedIfReadAgain) {
  const Machine machine{.memory_bytes = 8 * kGiB};
  EXPECT_THAT(rules_found(two_epochs(20ms), machine), ElementsAre("fits-memory"));
}

TEST(FitsMemory, CountsTheMemoryOfAllHosts) {
  const analyze::Profile profile = two_epochs(20ms);
  const Machine machine{.memory_bytes = kGiB};
  ASSERT_THAT(rules_found(profile, machine), ElementsAre("fits-memory"));
  EXPECT_THAT(advise(profile, machine).front().title(), HasSubstr("combined memory"));
}

TEST(FitsMemory, CountsTerabytesOfMemory) {
  EXPECT_THAT(rules_found(two_epochs(20ms, 2, 4000), {.memory_bytes = 8000 * kGiB}),
              ElementsAre("fits-memory"));
}

TEST(FitsMemory, IsNotReportedIfMemoryIsTooSmall) {
  EXPECT_THAT(rules_found(two_epochs(20ms), {.memory_bytes = 700 * kMiB}), IsEmpty());
}

TEST(FitsMemory, IsNotReportedIfThePageCacheHasIt) {
  EXPECT_THAT(rules_found(two_epochs(800us), {.memory_bytes = 8 * kGiB}), IsEmpty());
}

TEST(FitsMemory, IsNotReportedIfReadOnce) {
  EXPECT_THAT(rules_found(two_epochs(20ms, 1), {.memory_bytes = 8 * kGiB}), IsEmpty());
}

}  // namespace
}  // namespace millrace::advise
