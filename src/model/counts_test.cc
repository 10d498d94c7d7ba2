#include "model/counts.h"

#include <gtest/gtest.h>

namespace millrace::model {
namespace {

TEST(BatchSize, IsExactIfTheStepsAreEqual) {
  EXPECT_EQ(batch_size_of(320, 20), 16u);
  EXPECT_EQ(batch_size_of(45, 5), 9u);
  EXPECT_EQ(batch_size_of(7, 1), 7u);
}

TEST(BatchSize, AllowsForASmallerLastBatch) {
  EXPECT_EQ(batch_size_of(5000, 79), 64u);
  EXPECT_EQ(batch_size_of(700, 44), 16u);
  EXPECT_EQ(batch_size_of(1010, 11), 100u) << "92 to 100 are possible; 100 is the round one";
}

TEST(BatchSize, IsUnknownWithoutSteps) { EXPECT_EQ(batch_size_of(100, 0), 0u); }

analyze::Profile job(uint64_t ranks, uint64_t epochs, uint64_t steps_per_epoch) {
  analyze::Profile profile;
  profile.job.ranks = static_cast<uint32_t>(ranks);
  profile.job.epochs = epochs;
  profile.job.steps = epochs * steps_per_epoch;
  for (uint64_t rank = 0; rank < ranks; ++rank) {
    profile.ranks.emplace_back().steps = profile.job.steps;
  }
  for (uint64_t epoch = 0; epoch < epochs; ++epoch) {
    profile.epochs.emplace_back().steps = steps_per_epoch;
  }
  profile.loading.batches = profile.job.steps * ranks;
  profile.loading.epoch_starts = epochs * ranks;
  return profile;
}

TEST(Counts, ATrainingWithoutEvaluations) {
  analyze::Profile profile = job(2, 3, 10);
  profile.loading.samples = 2 * 3 * 10 * 8;
  const Counts counts = counts_of(profile);
  EXPECT_EQ(counts.ranks, 2u);
  EXPECT_EQ(counts.epochs, 3u);
  EXPECT_EQ(counts.samples_per_epoch, 160u);
  EXPECT_EQ(counts.batch_size, 8u);
  EXPECT_EQ(counts.eval_passes, 0u);
}

TEST(Counts, PassesThatAreNoEpochsAreEvaluations) {
  analyze::Profile profile = job(1, 3, 20);
  profile.loading.samples = 3 * 320 + 3 * 64;
  profile.loading.batches = 3 * 20 + 3 * 2;
  profile.loading.epoch_starts = 6;
  profile.data.samples_indexed = 3 * 320;
  const Counts counts = counts_of(profile);
  EXPECT_EQ(counts.samples_per_epoch, 320u);
  EXPECT_EQ(counts.batch_size, 16u);
  EXPECT_EQ(counts.eval_passes, 3u);
  EXPECT_EQ(counts.eval_batches, 2u);
  EXPECT_EQ(counts.eval_samples, 64u);
  EXPECT_EQ(counts.eval_batch_size, 32u);
}

TEST(Counts, BatchesThatWereOnlyPrefetchedDoNotCount) {
  analyze::Profile profile = job(1, 1, 10);
  profile.loading.batches = 14;
  profile.loading.samples = 14 * 8;
  const Counts counts = counts_of(profile);
  EXPECT_EQ(counts.samples_per_epoch, 80u);
  EXPECT_EQ(counts.batch_size, 8u);
  EXPECT_EQ(counts.eval_passes, 0u);
}

TEST(Counts, WithoutRegionsEpochsFollowFromTheBytes) {
  analyze::Profile profile;
  profile.job.dataset_bytes_read = 3'010'000;
  profile.job.dataset_unique_bytes = 1'000'000;
  const Counts counts = counts_of(profile);
  EXPECT_EQ(counts.epochs, 3u);
  EXPECT_FALSE(counts.epochs_marked);
  EXPECT_EQ(counts.batch_size, 0u);
}

TEST(Counts, AnEmptyProfileHasOneRankAndOneEpoch) {
  const Counts counts = counts_of({});
  EXPECT_EQ(counts.ranks, 1u);
  EXPECT_EQ(counts.epochs, 1u);
  EXPECT_EQ(counts.samples_per_epoch, 0u);
}

}  // namespace
}  // namespace millrace::model
