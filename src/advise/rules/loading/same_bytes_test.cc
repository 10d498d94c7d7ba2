#include <fmt/core.h>
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

TEST(SameBytes, EveryRankReadsEverything) {
  const analyze::Profile profile = ranks_read({{0, 100}, {0, 100}, {0, 100}, {0, 100}});
  ASSERT_THAT(rules_found(profile), ElementsAre("same-bytes"));
  EXPECT_THAT(advise(profile, {}).front().title(), HasSubstr("each of 4 ranks"));
}

// HDF5 reads 64 KiB for a row of 4 KiB, so a rank reads the rows of others, too.
TEST(SameBytes, RanksWithSamplesOfTheirOwnAreSharded) {
  analyze::Profile profile = ranks_read({{0, 100}, {0, 100}});
  profile.data.index_end = 1000;
  for (analyze::RankLoad& rank : profile.ranks) rank.samples = 1000;
  EXPECT_THAT(rules_found(profile), ElementsAre("same-bytes"));
  for (analyze::RankLoad& rank : profile.ranks) rank.samples = 500;
  EXPECT_THAT(rules_found(profile), testing::Not(testing::Contains("same-bytes")));
}

TEST(SameBytes, AlsoInEachOfSeveralEpochs) {
  EXPECT_THAT(rules_found(ranks_read({{0, 100}, {0, 100}}, 3)), ElementsAre("same-bytes"));
}

// Over three epochs every rank sees most files, and several ranks read each of them.
TEST(SameBytes, SharesThatChangeEveryEpochAreNotTheSame) {
  EXPECT_THAT(rules_found(ranks_read({{0, 25}, {25, 25}, {50, 25}, {75, 25}}, 8)), IsEmpty());
}

// Ten unmarked epochs: every rank sees nearly all files, and reads two and a half datasets.
TEST(SameBytes, SharesOfUnmarkedEpochsAreNotTheSame) {
  JobSketch job(4);
  for (Rank& rank : job.ranks()) {
    for (uint64_t epoch = 0; epoch < 10; ++epoch) {
      const auto order = shuffled(100, epoch);
      rank.batch({.compute = 100ms}, [&](Team& team) {
        for (uint64_t i = rank.index() * 25; i < rank.index() * 25 + 25; ++i) {
          team.next().read_file(fmt::format("/data/{:03}.npy", order[i]),
                                {.size = 2 * kMiB, .takes = 40ms});
        }
      });
    }
  }
  EXPECT_THAT(rules_found(job.profile()), IsEmpty());
}

TEST(SameBytes, EightyFivePercentInCommonIsNotEverything) {
  EXPECT_THAT(rules_found(ranks_read({{0, 85}, {15, 85}, {0, 85}, {15, 85}})),
              testing::Not(testing::Contains("same-bytes")));
}

TEST(SameBytes, WorkersThatDoNotDivideTheSamples) {
  Profile profile = waiting_job(".npy");
  profile.loading.threads = 2;
  profile.files = {data_file("/data/a.npy", kMiB, 8), data_file("/data/b.npy", kMiB, 8)};
  profile.job.dataset_unique_bytes = 2 * kMiB;
  profile.job.dataset_bytes_read = 16 * kMiB;
  EXPECT_EQ(first_rule(profile), "same-bytes");
  EXPECT_EQ(first(profile).gain.saved_ns, 5 * kSecondNs);
  // A worker that reads one of the files again is something else.
  profile.files[1].io.bytes_read = 4 * kMiB;
  EXPECT_THAT(rules_found(profile), Not(Contains("same-bytes")));
}

}  // namespace
}  // namespace millrace::advise
