#include "loader/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>
#include <thread>

#include "loader/testing/seen_batches.h"

namespace millrace::loader {
namespace {

using data::Epoch;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Loader, ReturnsEverySampleOncePerEpochInOrder) {
  const auto loader = open(options(1000, 64));
  const auto batches = whole_epoch(*loader, 3);
  ASSERT_EQ(batches.size(), 16u);
  EXPECT_EQ(loader->batch_count(), 16u);
  EXPECT_EQ(batches.back().samples.size(), 1000u - 15 * 64);
  const auto samples = samples_of(batches);
  for (uint64_t i = 0; i < samples.size(); ++i) {
    ASSERT_EQ(samples[i], data::index_of(loader->order().at(Epoch{3}, i)));
  }
  auto sorted = samples;
  std::ranges::sort(sorted);
  for (uint64_t i = 0; i < 1000; ++i) ASSERT_EQ(sorted[i], i);
}

TEST(Loader, ARowHasTheDecodedSampleItsLabelAndItsId) {
  const auto loader = open(options(100, 32));
  for (const Seen& batch : whole_epoch(*loader, 2)) {
    for (size_t row = 0; row < batch.samples.size(); ++row) {
      const uint64_t sample = batch.samples[row];
      EXPECT_EQ(batch.labels[row], sample % 10 == 9 ? -1 : static_cast<int64_t>(sample % 10));
      EXPECT_EQ(batch.is_real[row], 1);
      EXPECT_EQ(batch.fields[0][row * 16], FakeSource::byte_at(sample, 15));
      uint64_t mixed = 0;
      std::memcpy(&mixed, &batch.fields[1][row * 8], 8);
      EXPECT_EQ(mixed, FakeDecoder::mix({data::SampleId{sample}, Epoch{2}, 7}));
    }
  }
}

TEST(Loader, ReadsVerbatimSamplesStraightIntoTheBatch) {
  LoaderOptions verbatim = options(50, 8);
  verbatim.decoder = std::make_shared<FakeVerbatim>();
  const auto loader = open(verbatim);
  const auto batches = whole_epoch(*loader, 0);
  for (const Seen& batch : batches) {
    for (size_t row = 0; row < batch.samples.size(); ++row) {
      uint64_t sample = 0;
      std::memcpy(&sample, &batch.fields[0][row * 16], 8);
      EXPECT_EQ(sample, batch.samples[row]);
      EXPECT_EQ(batch.fields[0][row * 16 + 15], FakeSource::byte_at(sample, 15));
    }
  }
  EXPECT_EQ(loader->stats().samples, 50u);
  EXPECT_GE(loader->stats().bytes_read, 800u);
}

TEST(Loader, ReturnsTheSameBatchesWithAnyNumberOfThreads) {
  LoaderOptions one = options(333, 16);
  one.thread_count = 1;
  one.prefetch_batches = 1;
  const auto expected = whole_epoch(*open(one), 1);
  for (const uint32_t thread_count : {2u, 8u, 0u}) {
    LoaderOptions many = options(333, 16);
    many.thread_count = thread_count;
    EXPECT_EQ(whole_epoch(*open(many), 1), expected) << thread_count << " threads";
  }
}

TEST(Loader, EpochsFollowEachOtherAndDiffer) {
  const auto loader = open(options(100, 10));
  std::vector<std::vector<Seen>> epochs;
  for (uint64_t epoch = 0; epoch < 4; ++epoch) epochs.push_back(whole_epoch(*loader, epoch));
  EXPECT_NE(samples_of(epochs[0]), samples_of(epochs[1]));
  for (uint64_t epoch = 0; epoch < 4; ++epoch) {
    EXPECT_EQ(epochs[epoch], whole_epoch(*open(options(100, 10)), epoch)) << "epoch " << epoch;
    EXPECT_EQ(epochs[epoch].front().index, 0u);
  }
}

TEST(Loader, ARepeatedEpochIsTheSame) {
  const auto loader = open(options(40, 10));
  const auto first = whole_epoch(*loader, 0);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(whole_epoch(*loader, 0), first);
  EXPECT_EQ(whole_epoch(*loader, 5), whole_epoch(*open(options(40, 10)), 5));
}

TEST(Loader, AnEpochMayEndEarly) {
  const auto loader = open(options(200, 10));
  ASSERT_TRUE(loader->start_epoch(Epoch{0}).ok());
  EXPECT_EQ(take(*loader, 3).size(), 3u);
  EXPECT_EQ(whole_epoch(*loader, 1), whole_epoch(*open(options(200, 10)), 1));
  ASSERT_TRUE(loader->start_epoch(Epoch{2}).ok());
  EXPECT_EQ(take(*loader, 19).size(), 19u);  // the next epoch is being prefetched
  EXPECT_EQ(whole_epoch(*loader, 3), whole_epoch(*open(options(200, 10)), 3));
}

TEST(Loader, PrefetchesTheNextEpoch) {
  const auto source = std::make_shared<FakeSource>(30);
  LoaderOptions ahead = options(30, 10);
  ahead.source = source;
  ahead.prefetch_batches = 2;
  const auto loader = open(ahead);
  EXPECT_EQ(whole_epoch(*loader, 0).size(), 3u);
  while (source->read_count() < 50) std::this_thread::yield();  // 30, and two batches of epoch 1
  ASSERT_TRUE(loader->start_epoch(Epoch{1}).ok());
  EXPECT_EQ(take(*loader, 2).size(), 2u);
  EXPECT_EQ(samples_of(whole_epoch(*loader, 1)).size(), 30u);
}

// Sleeps long enough for unwanted reads to show up.
void let_threads_run() { std::this_thread::sleep_for(std::chrono::milliseconds(30)); }

TEST(Loader, PrefetchesOnlyAFewBatchesOfAnEpochThatMayNeverStart) {
  const auto source = std::make_shared<FakeSource>(200);
  LoaderOptions ahead = options(200, 10);
  ahead.source = source;
  ahead.prefetch_batches = 16;
  const auto loader = open(ahead);
  for (uint64_t epoch = 0; epoch < 3; ++epoch) {
    EXPECT_EQ(whole_epoch(*loader, epoch).size(), 20u);
    // The first batch of the next epoch, and one with a row for each of the three threads.
    while (source->read_count() < (epoch + 1) * 200 + 20) std::this_thread::yield();
    let_threads_run();
    EXPECT_EQ(source->read_count(), (epoch + 1) * 200 + 20);
  }
}

TEST(Loader, EveryThreadPrefetchesARowOfTheNextEpochEvenOfSmallBatches) {
  const auto source = std::make_shared<FakeSource>(3);
  LoaderOptions small = options(3, 1);
  small.source = source;
  small.prefetch_batches = 100;
  const auto loader = open(small);
  EXPECT_EQ(whole_epoch(*loader, 0).size(), 3u);
  while (source->read_count() < 3 + 1 + 3) std::this_thread::yield();
  let_threads_run();
  EXPECT_EQ(source->read_count(), 3u + 1 + 3);
  EXPECT_EQ(whole_epoch(*loader, 1), whole_epoch(*open(options(3, 1)), 1));
  EXPECT_EQ(whole_epoch(*loader, 2), whole_epoch(*open(options(3, 1)), 2));
}

TEST(Loader, ReadsNothingAfterTheLastEpoch) {
  const auto source = std::make_shared<FakeSource>(30);
  LoaderOptions two = options(30, 10);
  two.source = source;
  two.epoch_count = 2;
  const auto loader = open(two);
  EXPECT_EQ(whole_epoch(*loader, 0).size(), 3u);
  EXPECT_EQ(whole_epoch(*loader, 1).size(), 3u);
  let_threads_run();
  EXPECT_EQ(source->read_count(), 60u);
  // Another epoch may be started, and nothing is prefetched after it.
  EXPECT_EQ(whole_epoch(*loader, 2), whole_epoch(*open(options(30, 10)), 2));
  let_threads_run();
  EXPECT_EQ(source->read_count(), 90u);
}

TEST(Loader, AResumedRunCountsEpochsFromTheStartOfTheRun) {
  LoaderOptions three = options(30, 10);
  three.epoch_count = 3;
  const auto first = open(three);
  whole_epoch(*first, 0);
  ASSERT_TRUE(first->start_epoch(Epoch{1}).ok());
  take(*first, 1);
  const auto source = std::make_shared<FakeSource>(30);
  three.source = source;
  const auto second = open(three);
  ASSERT_TRUE(second->restore(first->state()).ok());
  EXPECT_EQ(take(*second).size(), 2u);
  EXPECT_EQ(whole_epoch(*second, 2).size(), 3u);
  let_threads_run();
  EXPECT_EQ(source->read_count(), 20u + 30u);
}

TEST(Loader, RequiresStartEpochBeforeNext) {
  const auto loader = open(options(10, 2));
  const auto batch = loader->next();
  ASSERT_FALSE(batch.ok());
  EXPECT_THAT(batch.error().message(), HasSubstr("start_epoch"));
}

TEST(Loader, ReturnsNothingAfterTheEndOfAnEpoch) {
  const auto loader = open(options(10, 10));
  EXPECT_EQ(whole_epoch(*loader, 0).size(), 1u);
  for (int i = 0; i < 3; ++i) {
    const auto batch = loader->next();
    ASSERT_TRUE(batch.ok());
    EXPECT_FALSE(batch->has_value());
  }
}

TEST(Loader, ADatasetWithoutSamplesHasNoBatches) {
  for (const Tail tail : {Tail::kDrop, Tail::kPad, Tail::kUneven}) {
    LoaderOptions none = options(0, 4);
    none.tail = tail;
    const auto loader = open(none);
    EXPECT_THAT(whole_epoch(*loader, 0), IsEmpty());
    EXPECT_THAT(whole_epoch(*loader, 1), IsEmpty());
    EXPECT_EQ(loader->batch_count(), 0u);
  }
}

TEST(Loader, OneSampleIsOneBatchAndABatchMayBeLargerThanTheDataset) {
  const auto loader = open(options(1, order::Share::kBatchSizeMax));
  const auto batches = whole_epoch(*loader, 0);
  ASSERT_EQ(batches.size(), 1u);
  EXPECT_THAT(batches[0].samples, ElementsAre(0));
}

TEST(Loader, PaddedRowsAreMarked) {
  LoaderOptions padded = options(10, 4);
  padded.tail = Tail::kPad;
  const auto batches = whole_epoch(*open(padded), 0);
  ASSERT_EQ(batches.size(), 3u);
  EXPECT_THAT(batches[2].is_real, ElementsAre(1, 1, 0, 0));
  EXPECT_EQ(batches[2].samples[2], batches[0].samples[0]);
  EXPECT_EQ(batches[2].samples[3], batches[0].samples[1]);
}

TEST(Loader, AnIncompleteLastBatchIsDroppedOnRequest) {
  LoaderOptions dropped = options(10, 4);
  dropped.tail = Tail::kDrop;
  EXPECT_EQ(whole_epoch(*open(dropped), 0).size(), 2u);
  dropped = options(3, 4);
  dropped.tail = Tail::kDrop;
  const auto loader = open(dropped);
  EXPECT_THAT(whole_epoch(*loader, 0), IsEmpty());
}

TEST(Loader, RanksShareAnEpochWhateverItsLength) {
  for (const uint64_t sample_count : {1u, 2u, 7u, 100u, 101u}) {
    std::vector<uint64_t> all;
    for (uint32_t rank = 0; rank < 3; ++rank) {
      LoaderOptions shared = options(sample_count, 8);
      shared.world = {.rank = rank, .size = 3};
      const auto mine = samples_of(whole_epoch(*open(shared), 0));
      all.insert(all.end(), mine.begin(), mine.end());
    }
    std::ranges::sort(all);
    std::vector<uint64_t> expected(sample_count);
    std::iota(expected.begin(), expected.end(), uint64_t{0});
    EXPECT_EQ(all, expected);
  }
}

TEST(Loader, RefusesInvalidOptions) {
  const auto refused = [](const LoaderOptions& wrong) {
    const auto loader = Loader::open(wrong);
    return loader.ok() ? std::string("not refused") : loader.error().message();
  };
  EXPECT_THAT(refused({}), HasSubstr("source"));
  EXPECT_THAT(refused(options(10, 0)), HasSubstr("batch_size is 0"));
  LoaderOptions wrong = options(10, 2);
  wrong.world = {.rank = 2, .size = 2};
  EXPECT_THAT(refused(wrong), HasSubstr("rank 2 does not exist in a world of 2"));
  wrong = options(10'000, 1000);
  wrong.memory_bytes = 10'000;
  EXPECT_THAT(refused(wrong), HasSubstr("memory_bytes"));
  wrong = options(10, order::Share::kBatchSizeMax);
  wrong.tail = Tail::kPad;
  EXPECT_THAT(refused(wrong), HasSubstr("smaller batch_size"));
  EXPECT_THAT(refused(options(10, order::Share::kBatchSizeMax + 1)), HasSubstr("it must be 1 to"));
}

}  // namespace
}  // namespace millrace::loader
