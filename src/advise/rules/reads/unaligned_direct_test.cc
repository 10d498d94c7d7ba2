#include <fcntl.h>
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "advise/testing/workloads.h"

namespace millrace::advise {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

analyze::Profile direct_reads(uint64_t piece, uint64_t files) {
  JobSketch job;
  job.rank().batch({.compute = 1s}, [&](Team& team) {
    for (uint64_t i = 0; i < files; ++i) {
      team.next().read_file(
          fmt::format("/data/{}.bin", i),
          {.size = 10 * kMiB + 100, .piece = piece, .takes = 1ms, .flags = O_DIRECT});
    }
  });
  return job.profile();
}

TEST(UnalignedDirect, PiecesOfAHundredThousandBytes) {
  EXPECT_THAT(rules_found(direct_reads(100'000, 4)), ElementsAre("unaligned-direct"));
}

TEST(UnalignedDirect, UnalignedEndsOfFilesAreNotReported) {
  EXPECT_THAT(rules_found(direct_reads(128 * kKiB, 200)), IsEmpty());
}

}  // namespace
}  // namespace millrace::advise
