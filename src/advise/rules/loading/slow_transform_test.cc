#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "advise/testing/waiting_job.h"

namespace millrace::advise {
namespace {

using analyze::Profile;
using testing::HasSubstr;
using testing::Not;

TEST(SlowTransform, TakesHalfOfTheLoading) {
  Profile profile = waiting_job(".npy");
  profile.loading.transform_ns = 5 * kSecondNs;
  profile.loading.other_ns = 3 * kSecondNs;
  EXPECT_THAT(first(profile).title(), HasSubstr("transforms"));
  profile.loading.transform_ns = 3 * kSecondNs;
  profile.loading.other_ns = 5 * kSecondNs;
  EXPECT_THAT(first(profile).title(), HasSubstr("the dataset's own code"));
}

// Two workers on two cores, always busy. A step takes 4 ms when they are not, and 20 ms on average.
TEST(SlowTransform, CountsTheComputeThatWorkersSlowDown) {
  Profile profile = waiting_job(".npy");
  profile.time.mean.wait_ns = 1 * kSecondNs;
  profile.time.mean.compute_ns = 9 * kSecondNs;
  profile.time.mean.fetch_ns = 10 * kSecondNs;
  profile.time.mean.fetch_exposed_ns = 1 * kSecondNs;
  profile.loading.threads = 2;
  profile.loading.work_ns = 18 * kSecondNs;
  profile.loading.other_ns = 18 * kSecondNs;
  profile.job.cores = 2;
  EXPECT_LT(first(profile).gain.saved_ns, 1 * kSecondNs);
  profile.steps.compute_ns.count = 500;
  profile.steps.compute_ns.min = 4'000'000;
  // 1 s of waiting and 9 s of compute, without 1.5 times 500 steps of 4 ms; eight tenths of it.
  EXPECT_NEAR(saved_s(first(profile)), 0.8 * 7, 0.1);
  EXPECT_THAT(first(profile).gain.how, HasSubstr("compute that this work slows down"));
  profile.job.cores = 3;
  EXPECT_LT(first(profile).gain.saved_ns, 1 * kSecondNs);
  EXPECT_THAT(first(profile).gain.how, Not(HasSubstr("compute")));
}

}  // namespace
}  // namespace millrace::advise
