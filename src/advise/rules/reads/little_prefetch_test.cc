#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "advise/testing/waiting_job.h"
#include "advise/testing/workloads.h"

namespace millrace::advise {
namespace {

using analyze::Profile;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// Ten batches of 64 MiB that take a second to read and a second to compute.
analyze::Profile batches(bool prefetch, nanoseconds compute) {
  JobSketch job;
  job.import("torch");
  Rank& rank = job.rank();
  rank.epoch(0, [&] {
    for (int i = 0; i < 10; ++i) {
      rank.batch({.compute = compute, .readers = 4, .prefetch = prefetch}, [&](Team& team) {
        for (int piece = 0; piece < 64; ++piece) {
          Hand& hand = team.next();
          hand.read_file(fmt::format("/data/{:02}-{:02}.npy", i, piece),
                         {.size = 2 * kMiB, .takes = 60ms});
        }
      });
    }
  });
  return job.profile();
}

TEST(LittlePrefetch, ReadingOnlyWhenTheBatchIsNeeded) {
  const analyze::Profile profile = batches(false, 1s);
  ASSERT_THAT(rules_found(profile), ElementsAre("little-prefetch"));
  const Finding finding = advise(profile, {}).front();
  EXPECT_NEAR(finding.gain.share, 0.5, 0.02);
  ASSERT_FALSE(finding.changes.empty());
  EXPECT_EQ(finding.changes[0].framework, "pytorch");
  for (const Change& change : finding.changes) EXPECT_NE(change.framework, "tf.data");
}

TEST(LittlePrefetch, IsNotReportedIfHalfOfReadingOverlaps) {
  EXPECT_THAT(rules_found(batches(true, 500ms)), IsEmpty());
}

TEST(LittlePrefetch, IsNotReportedWithoutComputeToOverlapWith) {
  EXPECT_THAT(rules_found(batches(false, 20ms)), IsEmpty());
}

// sorted(loader): two workers load an epoch, and then rest while training computes.
TEST(LittlePrefetch, IfTheLoopTakesAllBatchesBeforeItTrains) {
  Profile profile = waiting_job(".pcm");
  profile.time.mean.wait_ns = 5 * kSecondNs;
  profile.time.mean.fetch_ns = 5 * kSecondNs;
  profile.time.mean.fetch_exposed_ns = 5 * kSecondNs;
  profile.time.mean.compute_ns = 5 * kSecondNs;
  profile.loading.threads = 2;
  profile.loading.work_ns = profile.loading.other_ns = 9 * kSecondNs;
  const Finding finding = first(profile, {.cores = 2});
  EXPECT_EQ(finding.rule, "little-prefetch");
  EXPECT_THAT(finding.changes.front().text, HasSubstr("sorted(loader)"));
  profile.loading.work_ns = profile.loading.other_ns = 12 * kSecondNs;
  EXPECT_EQ(first_rule(profile, {.cores = 2}), "slow-transform") << "two workers cannot keep up";
}

TEST(LittlePrefetch, IsLimitedByTheCores) {
  Profile profile = job_of({.extension = ".jpg"});
  const auto saved_with = [&](uint64_t cores) {
    for (const Finding& finding : advise(profile, {.cores = cores})) {
      for (const Finding& other : finding.also) {
        if (other.rule == "little-prefetch") return saved_s(other);
      }
    }
    return 0.0;
  };
  EXPECT_EQ(saved_with(1), 0);
  // Of 10 s, at least half of 9 s of loading and 2 s of compute are left. To take 125 batches from
  // workers costs 62 ms.
  ASSERT_EQ(profile.loading.batches, 125);
  EXPECT_NEAR(saved_with(2), 4.47, 0.01);
  EXPECT_NEAR(saved_with(16), 7.94, 0.01);
}

// Batches that are loaded in less time than a worker needs to hand them over.
TEST(LittlePrefetch, IsNotWorthItForQuickBatches) {
  Profile profile = job_of({.extension = ".jpg"});
  profile.loading.batches = 4000;  // 2 ms of loading and 0.5 ms of compute for each
  EXPECT_THAT(advise(profile, {.cores = 4}).front().also, Not(IsEmpty()));
  profile.loading.batches = 16'000;
  for (const Finding& finding : advise(profile, {.cores = 4})) {
    EXPECT_NE(finding.rule, "little-prefetch");
    for (const Finding& other : finding.also) EXPECT_NE(other.rule, "little-prefetch");
  }
}

}  // namespace
}  // namespace millrace::advise
