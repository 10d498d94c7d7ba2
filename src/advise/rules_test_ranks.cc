// Rules about ranks: all read the same bytes, or some read more than others.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "advise/testing/workloads.h"

namespace millrace::advise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Four ranks; each reads `files` of 100 files from its `first` on, in a new order every epoch.
struct Part {
  uint64_t first = 0;
  uint64_t files = 0;
};

analyze::Profile ranks_read(const std::vector<Part>& parts, uint64_t epochs = 1,
                            nanoseconds takes = 20ms) {
  JobSketch job(static_cast<uint32_t>(parts.size()));
  for (Rank& rank : job.ranks()) {
    for (uint64_t epoch = 0; epoch < epochs; ++epoch) {
      rank.epoch(static_cast<int64_t>(epoch), [&] {
        rank.batch({.compute = 10 * takes}, [&](Team& team) {
          const auto order = shuffled(100, epoch);
          const Part part = parts[rank.index()];
          for (uint64_t i = part.first; i < part.first + part.files; ++i) {
            team.next().read_file(fmt::format("/data/{:03}.npy", order[i % 100]),
                                  {.size = 10 * kMiB, .piece = 2 * kMiB, .takes = takes});
          }
        });
      });
    }
  }
  return job.profile();
}

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

TEST(UnevenShards, OneRankHasAThirdMore) {
  const analyze::Profile profile = ranks_read({{0, 37}, {37, 21}, {58, 21}, {79, 21}}, 1, 100ms);
  ASSERT_THAT(rules_found(profile), ElementsAre("uneven-shards"));
  EXPECT_THAT(advise(profile, {}).front().title(), HasSubstr("rank 0"));
}

TEST(UnevenShards, AFifthMoreIsNotReported) {
  EXPECT_THAT(rules_found(ranks_read({{0, 30}, {30, 24}, {54, 23}, {77, 23}}, 1, 100ms)),
              IsEmpty());
}

}  // namespace
}  // namespace millrace::advise
