#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "advise/testing/waiting_job.h"
#include "advise/testing/workloads.h"

namespace millrace::advise {
namespace {

using analyze::Profile;
using testing::Contains;
using testing::Not;

analyze::Profile text_files(const std::string& extension, uint64_t bytes, nanoseconds compute) {
  JobSketch job;
  job.rank().epoch(0, [&] {
    job.rank().batch({.compute = compute}, [&](Team& team) {
      for (uint64_t i = 0; i < 8; ++i) {
        Hand& hand = team.next();
        hand.read_file(fmt::format("/data/{}{}", i, extension),
                       {.size = bytes / 8, .piece = 8 * kMiB, .takes = 3ms});
        hand.region("decode", 1s);
      }
    });
  });
  return job.profile();
}

TEST(TextParsing, AGigabyteOfCsvIsReported) {
  const analyze::Profile profile = text_files(".csv", kGiB, 1s);
  ASSERT_THAT(rules_found(profile), Contains("text-parsing"));
}

TEST(TextParsing, LittleCsvIsNotReported) {
  EXPECT_THAT(rules_found(text_files(".csv", 10 * kMiB, 1s)), Not(Contains("text-parsing")));
}

TEST(TextParsing, BinaryFilesAreNotParsed) {
  EXPECT_THAT(rules_found(text_files(".npy", kGiB, 1s)), Not(Contains("text-parsing")));
}

TEST(TextParsing, IsNotTheWaitingForSlowReads) {
  Profile profile = job_of({.extension = ".csv", .reads = 1000});
  profile.loading.read_ns = 6 * kSecondNs;  // 6 ms each
  EXPECT_THAT(rules_found(profile), Not(Contains("text-parsing")));
}

// LitData reads an index once, and maps the data.
TEST(TextParsing, IsNotASmallIndexBesideTheData) {
  Profile profile = job_of({.extension = ".json", .parse_ns = kSecondNs / 2000});
  analyze::GroupStats& index = profile.extensions.front();
  index.size_bytes = index.io.bytes_read = 50 * kKiB;
  index.io.opens = 10;
  EXPECT_EQ(first_rule(profile), "slow-transform");  // the parser would need 160 us for a byte
  EXPECT_THAT(rules_found(profile), Not(Contains("text-parsing")));
  analyze::GroupStats chunks;
  chunks.name = ".bin";
  chunks.size_bytes = kGiB;
  chunks.io.maps = 16;
  index.io.bytes_read = 50 * kMiB;
  EXPECT_THAT(rules_found(profile), Contains("text-parsing"));
  profile.extensions.push_back(chunks);
  EXPECT_THAT(rules_found(profile), Not(Contains("text-parsing")));
}

// A FASTA file that is read once, and encoded base by base in every epoch.
TEST(TextParsing, IsNotWhatCodeDoesWithTextInMemory) {
  EXPECT_EQ(first_rule({.extension = ".fa", .content = "text"}), "text-parsing");
  EXPECT_EQ(first_rule({.extension = ".fa", .content = "text", .reads = 0}), "slow-transform");
}

// A header that is parsed each time the file is opened is no text.
TEST(TextParsing, IsNotAHeaderOfAnArchive) {
  Profile profile = job_of({.extension = ".safetensors"});
  profile.loading.parse_ns = 7 * kSecondNs;
  EXPECT_EQ(first_rule(profile), "text-parsing");
  profile.loading.opens = 4000;
  profile.data.files_read = 1;
  EXPECT_THAT(rules_found(profile), Not(Contains("text-parsing")));
}

}  // namespace
}  // namespace millrace::advise
