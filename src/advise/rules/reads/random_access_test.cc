#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "advise/testing/workloads.h"

namespace millrace::advise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Samples of 128 KiB from files of 100 MiB, read in order or not; each read takes `takes`.
analyze::Profile samples_of_large_files(bool random, nanoseconds takes) {
  constexpr uint64_t kSamples = 800;
  JobSketch job;
  Rank& rank = job.rank();
  rank.epoch(0, [&] {
    rank.batch({.compute = 500ms}, [&](Team& team) {
      for (int file = 0; file < 4; ++file) {
        const std::string path = fmt::format("/data/{}.bin", file);
        auto order = shuffled(kSamples, 9);
        if (!random) std::sort(order.begin(), order.end());
        Hand& hand = team.next();
        hand.open(path, kSamples * 128 * kKiB);
        for (const uint64_t sample : order) {
          hand.read(path, sample * 128 * kKiB, 128 * kKiB, takes);
        }
        hand.close(path);
      }
    });
  });
  return job.profile();
}

const Machine kRotating{.data_storage = Storage::kRotating};

TEST(RandomAccess, OnARotatingDisk) {
  const analyze::Profile profile = samples_of_large_files(true, 9ms);
  ASSERT_THAT(rules_found(profile, kRotating), ElementsAre("random-access"));
  EXPECT_THAT(advise(profile, kRotating).front().title(), HasSubstr("128 KiB each from rotating"));
}

TEST(RandomAccess, IsNotReportedInOrderOnARotatingDisk) {
  EXPECT_THAT(rules_found(samples_of_large_files(false, 9ms), kRotating), IsEmpty());
}

TEST(RandomAccess, IsNotReportedOnASolidStateDisk) {
  EXPECT_THAT(rules_found(samples_of_large_files(true, 9ms), {.data_storage = Storage::kLocal}),
              IsEmpty());
}

TEST(RandomAccess, IsNotReportedIfAsFastAsSequential) {
  EXPECT_THAT(rules_found(samples_of_large_files(true, 870us), kRotating), IsEmpty());
}

}  // namespace
}  // namespace millrace::advise
