#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "advise/testing/waiting_job.h"
#include "advise/testing/workloads.h"

namespace millrace::advise {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// A second of decoding after `io` of I/O, by four workers.
analyze::Profile decoding(nanoseconds io, nanoseconds compute) {
  JobSketch job;
  Rank& rank = job.rank();
  rank.epoch(0, [&] {
    rank.batch({.compute = compute}, [&](Team& team) {
      for (int i = 0; i < 200; ++i) {
        Hand& hand = team.next();
        hand.read_file(fmt::format("/data/{}.jpg", i), {.size = 2 * kMiB, .takes = io / 10});
        hand.region("decode", 100ms);
      }
    });
  });
  return job.profile();
}

TEST(DecodeBound, TenTimesAsLongInDecodingAsInIo) {
  const analyze::Profile profile = decoding(100ms, 1s);
  ASSERT_THAT(rules_found(profile), ElementsAre("decode-bound"));
  EXPECT_EQ(advise(profile, {}).front().severity, Severity::kProblem);
}

TEST(DecodeBound, IsNotReportedIfIoTakesLonger) {
  EXPECT_THAT(rules_found(decoding(1100ms, 3s)), Not(Contains("decode-bound")));
}

TEST(DecodeBound, IsNotReportedIfTrainingDoesNotWait) {
  EXPECT_THAT(rules_found(decoding(100ms, 6s)), IsEmpty());
}

// Regions of libraries say more than the names of files.
TEST(DecodeBound, IsKnownByTheRegionsOfDecoders) {
  const Code records{.extension = ".rec", .decode_ns = 5 * kSecondNs};
  EXPECT_EQ(first_rule(records), "decode-bound");
  EXPECT_THAT(first(job_of(records)).title(), HasSubstr("what is in .rec"));
  EXPECT_EQ(first_rule({.extension = ".tsv", .decode_ns = 5 * kSecondNs}), "decode-bound");
  EXPECT_EQ(first_rule({.extension = ".tsv", .decode_ns = kSecondNs / 2}), "text-parsing");
  EXPECT_EQ(first_rule({.extension = ".rec", .decode_ns = kSecondNs / 2}), "slow-transform");
  // Only code that takes twice as long as decoding is something else.
  EXPECT_EQ(first_rule({.extension = ".png", .decode_ns = kSecondNs / 2}), "slow-transform");
  EXPECT_EQ(first_rule({.extension = ".png", .decode_ns = 3 * kSecondNs}), "decode-bound");
}

// Decoding is what decoders did; the rest is named as what it is.
TEST(DecodeBound, SaysHowLongDecodingTook) {
  const Finding little = first(job_of({.extension = ".jpg", .decode_ns = 3 * kSecondNs}));
  EXPECT_THAT(little.title(), HasSubstr("decoding and transforming .jpg"));
  EXPECT_THAT(little.evidence[1].text,
              HasSubstr("decoding took 3 s, transforms and other code 5 s"));
  const Finding most = first(job_of({.extension = ".jpg", .decode_ns = 8 * kSecondNs}));
  EXPECT_THAT(most.title(), HasSubstr("decoding .jpg"));
  EXPECT_THAT(most.evidence[1].text, HasSubstr("decoding took 8 s, calls"));
}

}  // namespace
}  // namespace millrace::advise
