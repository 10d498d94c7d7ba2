#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "advise/testing/workloads.h"

namespace millrace::advise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

analyze::Profile shared_file(uint32_t ranks, uint64_t size) {
  JobSketch job(ranks, 2);
  for (Rank& rank : job.ranks()) {
    rank.epoch(0, [&] {
      rank.batch({.compute = 1s}, [&](Team& team) {
        const uint64_t part = size / ranks;
        const uint64_t begin = rank.index() * part;
        for (uint64_t at = begin; at < begin + part; at += 4 * kMiB) {
          Hand& hand = team.next();
          hand.read("/data/all.h5", at, 4 * kMiB, 100ms);
        }
      });
    });
  }
  return job.profile();
}

const Machine kLustre{.data_storage = Storage::kParallel, .data_file_system = "lustre"};

TEST(LargeSharedFile, FourRanksOnLustre) {
  const analyze::Profile profile = shared_file(4, 2 * kGiB);
  ASSERT_THAT(rules_found(profile, kLustre), ElementsAre("large-shared-file"));
  const Finding finding = advise(profile, kLustre).front();
  EXPECT_THAT(change_for(finding, "lustre"), HasSubstr("lfs setstripe -S 4M -c 2 /data"));
}

TEST(LargeSharedFile, ThreeRanksAreNotMany) {
  EXPECT_THAT(rules_found(shared_file(3, 3 * kGiB / 2), kLustre), IsEmpty());
}

TEST(LargeSharedFile, LessThanAGibIsNotLarge) {
  EXPECT_THAT(rules_found(shared_file(4, 1000 * kMiB), kLustre), IsEmpty());
}

TEST(LargeSharedFile, ALocalDiskHasNoServers) {
  EXPECT_THAT(rules_found(shared_file(4, 2 * kGiB), {.data_storage = Storage::kLocal}), IsEmpty());
}

}  // namespace
}  // namespace millrace::advise
