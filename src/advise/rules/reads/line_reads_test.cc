#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "advise/testing/workloads.h"

namespace millrace::advise {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Not;

// `lines` lines of 80 bytes, then blocks of 1 MiB.
analyze::Profile text_by_lines(uint64_t lines, uint64_t blocks) {
  JobSketch job;
  job.rank().epoch(0, [&] {
    job.rank().batch({.compute = 500ms, .readers = 2}, [&](Team& team) {
      Hand& hand = team.next();
      hand.open("/data/train.txt", lines * 80 + blocks * kMiB);
      for (uint64_t i = 0; i < lines; ++i) {
        hand.transfer(wire::Call::kFgets, "/data/train.txt", 80, 100us, i * 80);
      }
      for (uint64_t i = 0; i < blocks; ++i) {
        hand.read("/data/train.txt", lines * 80 + i * kMiB, kMiB, 400us);
      }
      Hand& other = team.next();  // at the same time, so that two reads are in flight
      other.open("/data/b.bin", 1000 * kMiB);
      for (uint64_t i = 0; i < 20; ++i) other.read("/data/b.bin", i * 50 * kMiB, 50 * kMiB, 90ms);
    });
  });
  return job.profile();
}

TEST(LineReads, TwentyThousandLines) {
  EXPECT_THAT(rules_found(text_by_lines(20'000, 0)), ElementsAre("line-reads"));
}

TEST(LineReads, LessThanHalfOfTheReadsIsNotReported) {
  EXPECT_THAT(rules_found(text_by_lines(10'000, 10'100)), Not(Contains("line-reads")));
}

}  // namespace
}  // namespace millrace::advise
