#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "advise/testing/workloads.h"

namespace millrace::advise {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

enum class Within { kStreamed, kJumping, kShuffled };

// Three epochs over 20 files of 80 samples in a new order, eight samples per step.
analyze::Profile epochs_of_shards(Within within, uint64_t samples_per_step = 8) {
  constexpr uint64_t kSamples = 80;
  JobSketch job;
  Rank& rank = job.rank();
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    rank.epoch(epoch, [&] {
      for (const uint64_t file : shuffled(20, static_cast<uint64_t>(epoch) + 50)) {
        const std::string path = fmt::format("/data/{:02}.rec", file);
        auto order = shuffled(kSamples, static_cast<uint64_t>(epoch) * 100 + file);
        if (within != Within::kShuffled) std::sort(order.begin(), order.end());
        rank.main.open(path, kSamples * kMiB);
        for (uint64_t step = 0; step < kSamples / samples_per_step; ++step) {
          rank.batch({.compute = 100ms, .readers = 1}, [&](Team& team) {
            for (uint64_t i = 0; i < samples_per_step; ++i) {
              const uint64_t at = order[step * samples_per_step + i] * kMiB;
              // With an index, reads skip the bytes between samples.
              const uint64_t size = within == Within::kStreamed ? kMiB : kMiB - 4096;
              team.next().read(path, at, size, 200us);
            }
          });
        }
        rank.main.close(path);
      }
    });
  }
  return job.profile();
}

TEST(FileShuffle, SamplesOfAFileKeepTheirOrder) {
  const analyze::Profile profile = epochs_of_shards(Within::kJumping);
  ASSERT_THAT(rules_found(profile), ElementsAre("file-shuffle"));
  EXPECT_EQ(advise(profile, {}).front().severity, Severity::kWarning);
}

TEST(FileShuffle, StreamedFilesAreANoteBecauseABufferMayShuffle) {
  const analyze::Profile profile = epochs_of_shards(Within::kStreamed);
  ASSERT_THAT(rules_found(profile), ElementsAre("file-shuffle"));
  EXPECT_EQ(advise(profile, {}).front().severity, Severity::kNote);
}

TEST(FileShuffle, SamplesInANewOrderAreNotReported) {
  EXPECT_THAT(rules_found(epochs_of_shards(Within::kShuffled)), IsEmpty());
}

TEST(FileShuffle, OneFilePerStepHasNoInnerOrder) {
  EXPECT_THAT(rules_found(epochs_of_shards(Within::kStreamed, 80)), IsEmpty());
}

}  // namespace
}  // namespace millrace::advise
