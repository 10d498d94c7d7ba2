#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "advise/testing/shared_jobs.h"
#include "advise/testing/workloads.h"

namespace millrace::advise {
namespace {

using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(SmallReads, SixteenKibAreReportedWithNumbers) {
  const analyze::Profile profile = epoch_in_pieces(16 * kKiB, 1ms);
  ASSERT_THAT(rules_found(profile), ElementsAre("small-reads"));
  const Finding finding = advise(profile, {}).front();
  EXPECT_EQ(finding.severity, Severity::kProblem);
  EXPECT_THAT(finding.evidence[0].text, HasSubstr("100.0 % of 32,768 data reads"));
  EXPECT_THAT(finding.evidence[0].text, HasSubstr("16 KiB"));
  EXPECT_GT(finding.gain.share, 0.3);
  EXPECT_LT(finding.gain.share, 0.6);  // at most the part that does not overlap
}

TEST(SmallReads, SixtyFourKibAreLargeEnoughForADisk) {
  EXPECT_THAT(rules_found(epoch_in_pieces(64 * kKiB, 1ms)), IsEmpty());
}

TEST(SmallReads, SixtyFourKibAreTooSmallForLustreAndTheStripeIsNamed) {
  const analyze::Profile profile = epoch_in_pieces(64 * kKiB, 4ms);
  const Machine machine{.data_storage = Storage::kParallel, .data_file_system = "lustre"};
  ASSERT_THAT(rules_found(profile, machine), ElementsAre("small-reads"));
  const Finding finding = advise(profile, machine).front();
  EXPECT_THAT(change_for(finding, "lustre"), HasSubstr("lfs setstripe -S 1M -c 1 /data"));
}

TEST(SmallReads, OneMibIsLargeEnoughForLustre) {
  const Machine machine{.data_storage = Storage::kParallel, .data_file_system = "lustre"};
  EXPECT_THAT(rules_found(epoch_in_pieces(kMiB, 16ms), machine), IsEmpty());
}

// Each is as small as a file of statistics, but together they are the dataset.
TEST(SmallReads, TenFilesInPiecesAreADataset) {
  JobSketch job;
  job.rank().epoch(0, [&] {
    job.rank().batch({.compute = 100ms}, [&](Team& team) {
      for (int i = 0; i < 10; ++i) {
        team.next().read_file(fmt::format("/data/{}.data", i),
                              {.size = 2 * kMiB, .piece = 256, .takes = 100us});
      }
    });
  });
  EXPECT_THAT(rules_found(job.profile()), Contains("small-reads"));
}

TEST(SmallReads, AreNotReportedIfTheyTakeNoTime) {
  EXPECT_THAT(rules_found(epoch_in_pieces(16 * kKiB, 2us)), IsEmpty());
}

}  // namespace
}  // namespace millrace::advise
