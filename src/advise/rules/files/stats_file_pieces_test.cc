#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "advise/testing/workloads.h"

namespace millrace::advise {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Not;

analyze::Profile setup_with_stats(uint64_t piece, uint64_t size) {
  JobSketch job;
  Rank& rank = job.rank();
  rank.within("setup", [&] {
    rank.main.read_file("/data/stats.h5", {.size = size, .piece = piece, .takes = 500us});
  });
  rank.epoch(0, [&] {
    rank.batch({.compute = 10s}, [&](Team& team) {
      for (int i = 0; i < 40; ++i) {
        team.next().read_file(fmt::format("/data/{}.h5", i),
                              {.size = 100 * kMiB, .piece = 10 * kMiB, .takes = 20ms});
      }
    });
  });
  return job.profile();
}

TEST(StatsFilePieces, ThousandsOfSmallReadsBeforeTraining) {
  const analyze::Profile profile = setup_with_stats(512, 4 * kMiB);
  ASSERT_THAT(rules_found(profile), ElementsAre("stats-file-pieces"));
  EXPECT_EQ(advise(profile, {}).front().evidence[0].where, "files:/data/stats.h5");
}

TEST(StatsFilePieces, FourKibAreNotSmall) {
  EXPECT_THAT(rules_found(setup_with_stats(4096, 32 * kMiB)), Not(Contains("stats-file-pieces")));
}

}  // namespace
}  // namespace millrace::advise
