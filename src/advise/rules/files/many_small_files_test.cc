#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "advise/testing/workloads.h"

namespace millrace::advise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

analyze::Profile epoch_of_small_files(uint64_t files, uint64_t size, nanoseconds opening) {
  JobSketch job;
  job.rank().epoch(0, [&] {
    job.rank().batch({.compute = 500ms}, [&](Team& team) {
      for (const uint64_t i : shuffled(files, 1)) {
        team.next().read_file(fmt::format("/data/{:05}.jpg", i),
                              {.size = size, .takes = 2ms, .opening = opening});
      }
    });
  });
  return job.profile();
}

TEST(ManySmallFiles, AreReportedIfOpensCostAsMuchAsReads) {
  const analyze::Profile profile = epoch_of_small_files(4000, 100'000, 2ms);
  ASSERT_THAT(rules_found(profile), ElementsAre("many-small-files"));
  EXPECT_THAT(advise(profile, {}).front().evidence[0].text,
              HasSubstr("100.0 % of 4,000 data files"));
}

TEST(ManySmallFiles, AreNotReportedIfOpensAreCheap) {
  EXPECT_THAT(rules_found(epoch_of_small_files(4000, 100'000, 450us)), IsEmpty());
}

TEST(ManySmallFiles, SomeMegabytesAreNotSmall) {
  EXPECT_THAT(rules_found(epoch_of_small_files(2000, 2'000'000, 2ms)), IsEmpty());
}

TEST(ManySmallFiles, AHundredAreNotMany) {
  EXPECT_THAT(rules_found(epoch_of_small_files(100, 100'000, 2ms)), IsEmpty());
}

}  // namespace
}  // namespace millrace::advise
