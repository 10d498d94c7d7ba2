#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "advise/testing/waiting_job.h"
#include "advise/testing/workloads.h"

namespace millrace::advise {
namespace {

using analyze::Profile;
using testing::Contains;
using testing::ElementsAre;
using testing::Not;

// For each of `times` samples the whole file of 8 MiB is read.
analyze::Profile whole_file_for_each_sample(int times) {
  JobSketch job;
  job.rank().epoch(0, [&] {
    job.rank().batch({.compute = 500ms}, [&](Team& team) {
      for (int sample = 0; sample < times; ++sample) {
        for (int file = 0; file < 32; ++file) {
          team.next().read_file(fmt::format("/data/{}.npz", file),
                                {.size = 8 * kMiB, .piece = kMiB, .takes = 5ms});
        }
      }
    });
  });
  return job.profile();
}

TEST(PartialUse, AFileReadWholeForEverySample) {
  EXPECT_THAT(rules_found(whole_file_for_each_sample(4)), ElementsAre("partial-use"));
}

TEST(PartialUse, ThreeTimesIsNotReported) {
  EXPECT_THAT(rules_found(whole_file_for_each_sample(3)), Not(Contains("partial-use")));
}

// Chunks of 64 rows, which are decompressed for each row.
TEST(PartialUse, IsAShardThatIsReadWholeForEachSample) {
  Profile profile = job_of({.extension = ".chunk", .decompress_ns = 6 * kSecondNs});
  profile.loading.opens = 4000;
  profile.data.files_read = profile.job.dataset_files = 16;
  profile.data.index_end = 1000;
  profile.job.dataset_bytes = profile.job.dataset_unique_bytes = 16 * 100 * kKiB;
  profile.kinds[0].io.opens = 4000;
  profile.kinds[0].io.bytes_read = profile.job.dataset_bytes_read = 4000 * 100 * kKiB;
  const Finding finding = first(profile);
  EXPECT_EQ(finding.rule, "partial-use");
  EXPECT_NEAR(saved_s(finding), 7.87, 0.01) << "a file is needed once for its 62.5 samples";
  profile.data.index_end = 16;  // a sample is a file
  EXPECT_THAT(rules_found(profile), Not(Contains("partial-use")));
  profile.data.index_end = 1000;
  profile.kinds[0].io.bytes_read = 4000 * 10 * kKiB;  // only the sample is read
  EXPECT_THAT(rules_found(profile), Not(Contains("partial-use")));
}

}  // namespace
}  // namespace millrace::advise
