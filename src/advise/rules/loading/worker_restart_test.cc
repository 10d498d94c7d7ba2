#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "advise/testing/waiting_job.h"
#include "advise/testing/workloads.h"

namespace millrace::advise {
namespace {

using analyze::Profile;
using testing::Contains;
using testing::Not;

TEST(WorkerRestart, CostsTheStartsOfLaterEpochs) {
  Profile profile = job_with_workers(2);
  profile.loading.epoch_starts = 4;
  profile.loading.epoch_starts_ns = 4 * kSecondNs;
  profile.loading.epoch_starts_first_ns = kSecondNs;
  profile.loading.fetch_mean_ns = 100'000'000;
  EXPECT_THAT(rules_found(profile, {.cores = 4}), Not(Contains("worker-restart")));
  profile.job.processes = 1 + 4 * 2;
  const auto findings = advise(profile, {.cores = 4});
  const auto found = std::find_if(findings.begin(), findings.end(),
                                  [](const auto& each) { return each.rule == "worker-restart"; });
  ASSERT_NE(found, findings.end());
  EXPECT_NEAR(saved_s(*found), 2.7, 0.01);
}

}  // namespace
}  // namespace millrace::advise
