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

TEST(FewReadsInFlight, OneReaderThatWaitsForADevice) {
  const analyze::Profile profile = epoch_in_pieces(256 * kKiB, 2ms, 1);
  ASSERT_THAT(rules_found(profile), ElementsAre("few-reads-in-flight"));
  EXPECT_THAT(advise(profile, {}).front().evidence[0].text, HasSubstr("1.00 reads in flight"));
}

TEST(FewReadsInFlight, TwoReadersAreNotFew) {
  EXPECT_THAT(rules_found(epoch_in_pieces(256 * kKiB, 2ms, 2)), IsEmpty());
}

TEST(FewReadsInFlight, OneReaderOfThePageCacheIsEnough) {
  EXPECT_THAT(rules_found(epoch_in_pieces(kMiB, 500us, 1)), IsEmpty());
}

// Eight threads of the dataset read for its one worker.
TEST(FewReadsInFlight, CountsReadsOfHelperThreads) {
  Profile profile = job_of({.extension = ".bin"});
  profile.loading.threads = 1;
  profile.loading.reads = 0;
  profile.kinds[0].io.reads = 4000;
  profile.kinds[0].io.read_ns = 7 * kSecondNs;
  profile.epochs = {{.io = profile.kinds[0].io}};
  analyze::RankLoad rank;
  rank.data_bytes_read = 400 * kMiB;
  rank.threads_reading = 9;
  rank.calls_in_flight = 1;
  profile.ranks = {rank};
  EXPECT_EQ(first_rule(profile), "few-reads-in-flight");
  EXPECT_EQ(first_rule(profile, {.cores = 1, .data_storage = Storage::kRotating}),
            "few-reads-in-flight");
  profile.ranks[0].calls_in_flight = 7;
  EXPECT_THAT(rules_found(profile), Not(Contains("few-reads-in-flight")));
  // One thread reads ahead for the training process.
  profile.loading.threads = 0;
  profile.ranks[0].threads_reading = 1;
  profile.ranks[0].calls_in_flight = 1;
  EXPECT_EQ(first_rule(profile), "few-reads-in-flight");
  // The loop reads by itself.
  profile.functions = {function("read", wire::CallKind::kRead)};
  profile.stalls = {stall("read", "/data")};
  profile.stalls[0].count = 4000;
  profile.stalls[0].time_ns = 7 * kSecondNs;
  EXPECT_THAT(rules_found(profile), Not(Contains("few-reads-in-flight")));
}

}  // namespace
}  // namespace millrace::advise
