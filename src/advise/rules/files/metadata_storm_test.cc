#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "advise/testing/waiting_job.h"
#include "advise/testing/workloads.h"
#include "analyze/scan.h"
#include "analyze/testing/trace_builder.h"
#include "base/io/temporary_directory.h"

namespace millrace::advise {
namespace {

using analyze::Profile;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// Three epochs of ten seconds with `early` opens and stats at the start, `late` over the rest.
analyze::Profile epochs_with_metadata(uint64_t early, uint64_t late) {
  JobSketch job;
  Rank& rank = job.rank();
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    rank.epoch(epoch, [&] {
      for (uint64_t i = 0; i < early; ++i) {
        rank.main.call(wire::Call::kStat, fmt::format("/data/{}.rec", i % 100), 250us, 100 * kMiB);
      }
      for (int step = 0; step < 20; ++step) {
        rank.batch({.compute = 450ms}, [&](Team& team) {
          Hand& hand = team.next();
          for (uint64_t i = 0; i < late / 20; ++i) {
            hand.call(wire::Call::kStat, fmt::format("/data/{}.rec", i % 100), 10us, 100 * kMiB);
          }
          const auto file = static_cast<uint64_t>((step + epoch * 7) * 31 % 100);
          hand.read_file(fmt::format("/data/{}.rec", file), {.size = 100 * kMiB, .takes = 50ms});
        });
      }
    });
  }
  return job.profile();
}

TEST(MetadataStorm, AtTheStartOfEveryEpoch) {
  const analyze::Profile profile = epochs_with_metadata(3000, 0);
  ASSERT_THAT(rules_found(profile), ElementsAre("metadata-storm"));
  EXPECT_THAT(advise(profile, {}).front().evidence[0].text, HasSubstr("3 of 3 epochs"));
}

TEST(MetadataStorm, CallsSpreadOverTheEpochAreNoStorm) {
  EXPECT_THAT(rules_found(epochs_with_metadata(0, 7000)), IsEmpty());
}

TEST(MetadataStorm, CallsOfTheTrainingLoopStopTraining) {
  const analyze::Profile profile = epochs_with_metadata(3000, 4000);
  ASSERT_THAT(rules_found(profile), ElementsAre("metadata-storm"));
  const Finding finding = advise(profile, {}).front();
  EXPECT_THAT(finding.evidence[0].text, HasSubstr("most of them in /data"));
  // The first epoch's calls come before the first step.
  EXPECT_NEAR(static_cast<double>(finding.gain.saved_ns), 1.5e9, 0.1e9);
}

// A program without regions that examines files and opens few.
TEST(MetadataStorm, IsSeenWithoutRegions) {
  const auto job_of = [](int stats) {
    const TemporaryDirectory directory = *TemporaryDirectory::create();
    analyze::TraceBuilder job(directory.path() / "t.mrt");
    const analyze::Program program = job.program({});
    for (int i = 0; i < stats; ++i) {
      program.fstat(fmt::format("/data/{}", i % 100), {.at = 10us * i, .takes = 9us, .size = 100});
    }
    for (int i = 0; i < 100; ++i) {
      const auto at = std::chrono::milliseconds(100 + i);
      program.open(fmt::format("/data/{}", i), {.at = at, .takes = 10us});
      program.read(fmt::format("/data/{}", i), {.at = at + 20us, .takes = 10us, .size = 100});
    }
    return analyze::profile_of(job.finish());
  };
  ASSERT_THAT(rules_found(job_of(8000)), ElementsAre("metadata-storm"));
  const Finding finding = advise(job_of(8000), {}).front();
  EXPECT_THAT(finding.evidence[0].text, HasSubstr("8,000 calls"));
  EXPECT_NEAR(static_cast<double>(finding.gain.saved_ns), 72e6, 2e6);
  EXPECT_THAT(rules_found(job_of(700)), IsEmpty());
}

// A file that may have many names in many folders is searched for each sample.
TEST(MetadataStorm, IsASearchForFilesThatDoNotExist) {
  Profile profile = job_of({.extension = ".npy", .reads = 0});
  profile.loading.stats = profile.loading.missing = 4000 * 64;
  profile.loading.metadata_ns = kSecondNs;
  profile.loading.other_ns = 5 * kSecondNs;
  const Finding finding = first(profile);
  EXPECT_EQ(finding.rule, "metadata-storm");
  EXPECT_THAT(finding.evidence[0].text, HasSubstr("100.0 % of them for files that do not exist"));
  EXPECT_NEAR(saved_s(finding), 6, 0.01);
  EXPECT_THAT(rules_found(profile), Not(Contains("slow-transform"))) << "the code searches, too";
  profile.loading.missing = 0;
  EXPECT_EQ(first_rule(profile), "metadata-storm") << "or for times of files that do";
  // Eight calls take little code. What is left is the dataset's own.
  profile.loading.stats = profile.loading.missing = 4000 * 8;
  EXPECT_EQ(first_rule(profile), "slow-transform");
  EXPECT_THAT(rules_found(profile), Contains("metadata-storm"));
}

// sqlite examines the folders of a file, and looks for its journals.
TEST(MetadataStorm, IsNotALibraryThatOpensAFile) {
  Profile profile = job_of({.extension = ".db"});
  profile.loading.opens = 4000;
  profile.loading.stats = 4000 * 17;
  profile.loading.missing = 4000 * 4;
  profile.data.files_read = 1;
  EXPECT_THAT(rules_found(profile), Not(Contains("metadata-storm")));
}

}  // namespace
}  // namespace millrace::advise
