#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "advise/testing/waiting_job.h"
#include "advise/testing/workloads.h"

namespace millrace::advise {
namespace {

using analyze::Profile;
using testing::ElementsAre;
using testing::IsEmpty;

// Besides large files, reads `name` of `size` bytes whole `times` times, opened each time or once.
analyze::Profile beside_large_files(uint64_t size, uint64_t times, bool open_each_time) {
  JobSketch job;
  const std::string path = "/data/means.bin";
  job.rank().epoch(0, [&] {
    job.rank().batch({.compute = 500ms}, [&](Team& team) {
      for (uint64_t i = 0; i < 40; ++i) {
        team.next().read_file(fmt::format("/data/{}.rec", i),
                              {.size = 100 * kMiB, .piece = 10 * kMiB, .takes = 15ms});
      }
      Hand& hand = team.next();
      if (!open_each_time) hand.open(path, size);
      for (uint64_t i = 0; i < times; ++i) {
        if (open_each_time) hand.open(path, size);
        for (uint64_t at = 0; at < size; at += kMiB) {
          hand.read(path, at, std::min(kMiB, size - at), 3ms);
        }
        if (open_each_time) hand.close(path);
      }
    });
  });
  return job.profile();
}

TEST(HotSmallFile, ReadForEverySample) {
  const analyze::Profile profile = beside_large_files(100'000, 1000, true);
  ASSERT_THAT(rules_found(profile), ElementsAre("hot-small-file"));
  EXPECT_EQ(advise(profile, {}).front().evidence[0].where, "files:/data/means.bin");
}

// Keeping it open would not help: it is parsed again.
TEST(HotSmallFile, IsNoRepeatedOpenIfEachReadsAllOfIt) {
  EXPECT_THAT(rules_found(beside_large_files(100'000, 4000, true)), ElementsAre("hot-small-file"));
}

TEST(HotSmallFile, FiveTimesPerEpochIsReported) {
  EXPECT_THAT(rules_found(beside_large_files(64 * kMiB, 6, false)), ElementsAre("hot-small-file"));
}

TEST(HotSmallFile, FourTimesPerEpochIsNotReported) {
  EXPECT_THAT(rules_found(beside_large_files(64 * kMiB, 4, false)), IsEmpty());
}

TEST(HotSmallFile, AVocabularyIsNotTheText) {
  Profile profile = job_of({.extension = ".json"});
  profile.loading.opens = 4000;
  profile.loading.reads = 4000;
  profile.files = {data_file("/data/words.json", 100 * kKiB, 4000)};
  profile.job.dataset_files = 2;
  profile.job.dataset_bytes_read = 4000 * 100 * kKiB;
  profile.job.dataset_unique_bytes = 100 * kKiB;
  EXPECT_EQ(first_rule(profile), "hot-small-file");
  EXPECT_GT(first(profile).gain.saved_ns, 7 * kSecondNs);
  profile.files[0].path = "/data/rows.csv";
  profile.extensions[0].name = ".csv";
  EXPECT_EQ(first_rule(profile), "text-parsing");
}

TEST(HotSmallFile, LoadedForEachBatch) {
  Profile profile = waiting_job(".pkl");
  const uint64_t batches = profile.loading.batches;
  profile.loading.other_ns = kSecondNs;
  profile.loading.collate_ns = 7 * kSecondNs;
  profile.loading.opens = profile.loading.reads = batches;
  profile.files = {data_file("/data/popularity.pkl", kMiB, batches)};
  profile.job.dataset_files = 1;
  profile.job.dataset_bytes_read = batches * kMiB;
  profile.job.dataset_unique_bytes = kMiB;
  EXPECT_EQ(first_rule(profile), "hot-small-file");
  EXPECT_GT(first(profile).gain.saved_ns, 6 * kSecondNs);
}

}  // namespace
}  // namespace millrace::advise
