// Tests loaders that continue where another one was, or with another batch size.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "data/subset_source.h"
#include "loader/testing/seen_batches.h"

namespace millrace::loader {
namespace {

using data::Epoch;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(ResumedLoader, AStateResumesBitForBitWhereItWasSaved) {
  for (const Shuffle shuffle : {Shuffle::kOff, Shuffle::kGlobal, Shuffle::kLocal, Shuffle::kFile}) {
    LoaderOptions same = options(230, 16);
    same.shuffle = shuffle;
    const auto expected = rows_of(whole_epoch(*open(same), 4));
    const auto saving = open(same);
    ASSERT_TRUE(saving->start_epoch(Epoch{4}).ok());
    auto rows = rows_of(take(*saving, 5));
    const auto state = LoaderState::parse(saving->state().text());
    ASSERT_TRUE(state.ok());
    LoaderOptions other = same;  // with another number of threads and another batch size
    other.thread_count = 2;
    other.batch_size = 9;
    const auto resumed = open(other);
    ASSERT_TRUE(resumed->restore(*state).ok());
    const auto rest = rows_of(take(*resumed));
    rows.insert(rows.end(), rest.begin(), rest.end());
    EXPECT_EQ(rows, expected) << order::shuffle_name(shuffle);
    EXPECT_EQ(whole_epoch(*resumed, 5), whole_epoch(*open(other), 5));
  }
}

TEST(ResumedLoader, AResumedRunCountsItsBatchesFromTheStartOfTheEpoch) {
  const auto whole = open(options(100, 10));
  const auto expected = whole_epoch(*whole, 0);
  const auto resumed = open(options(100, 10));
  ASSERT_TRUE(resumed->start_epoch(Epoch{0}).ok());
  take(*resumed, 4);
  const LoaderState state = resumed->state();
  EXPECT_EQ(state.done, 40u);
  const auto loader = open(options(100, 10));
  ASSERT_TRUE(loader->restore(state).ok());
  EXPECT_EQ(loader->batch_count(), 10u);
  const auto rest = take(*loader);
  ASSERT_EQ(rest.size(), 6u);
  for (size_t i = 0; i < rest.size(); ++i) EXPECT_EQ(rest[i], expected[4 + i]);
}

TEST(ResumedLoader, AStateAtTheEndOfAnEpochHasNoMoreBatches) {
  const auto loader = open(options(20, 10));
  whole_epoch(*loader, 0);
  const LoaderState state = loader->state();
  const auto resumed = open(options(20, 10));
  ASSERT_TRUE(resumed->restore(state).ok());
  EXPECT_THAT(take(*resumed), IsEmpty());
  EXPECT_EQ(whole_epoch(*resumed, 1), whole_epoch(*open(options(20, 10)), 1));
}

TEST(ResumedLoader, AStateResumesInAWorldOfAnotherSize) {
  for (const Shuffle shuffle : {Shuffle::kGlobal, Shuffle::kLocal, Shuffle::kPartial}) {
    std::map<uint64_t, int> times;
    LoaderState state;
    const auto in_world = [&](uint32_t rank, uint32_t size) {
      LoaderOptions shared = options(100, 6);
      shared.shuffle = shuffle;
      shared.world = {.rank = rank, .size = size};
      return shared;
    };
    for (uint32_t rank = 0; rank < 2; ++rank) {
      const auto loader = open(in_world(rank, 2));
      ASSERT_TRUE(loader->start_epoch(Epoch{1}).ok());
      for (const uint64_t sample : samples_of(take(*loader, 4))) ++times[sample];
      state = loader->state();
    }
    EXPECT_EQ(state.done, 48u);
    for (uint32_t rank = 0; rank < 3; ++rank) {
      const auto loader = open(in_world(rank, 3));
      ASSERT_TRUE(loader->restore(state).ok());
      for (const uint64_t sample : samples_of(take(*loader))) ++times[sample];
    }
    EXPECT_EQ(times.size(), 100u) << order::shuffle_name(shuffle);
    for (const auto& [sample, count] : times) EXPECT_EQ(count, 1) << "sample " << sample;
  }
}

TEST(ResumedLoader, RefusesAStateOfOtherSamplesOfTheSameNumber) {
  LoaderOptions part = options(20, 4);
  const auto some = [&](uint64_t first) {
    std::vector<data::SampleId> samples;
    for (uint64_t i = 0; i < 10; ++i) samples.push_back(data::SampleId{first + i});
    return *data::SubsetSource::make(std::make_shared<FakeSource>(20), std::move(samples));
  };
  part.source = some(0);
  const LoaderState state = open(part)->state();
  EXPECT_TRUE(open(part)->restore(state).ok());
  part.source = some(7);
  const Status refused = open(part)->restore(state);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message(), HasSubstr("another dataset: it has 10 samples too"));
}

TEST(ResumedLoader, RefusesAStateOfAnotherOrderAndSaysWhatDiffers) {
  const auto saving = open(options(100, 10));
  ASSERT_TRUE(saving->start_epoch(Epoch{0}).ok());
  const LoaderState state = saving->state();
  const auto refused = [&](const LoaderOptions& other) {
    const auto loader = open(other);
    const auto status = loader->restore(state);
    return status.ok() ? std::string("not refused") : status.error().message();
  };
  LoaderOptions other = options(100, 10);
  other.seed = 8;
  EXPECT_THAT(refused(other), HasSubstr("its seed is 7, this loader's 8"));
  EXPECT_THAT(refused(options(101, 10)), HasSubstr("number of samples is 100"));
  other = options(100, 10);
  other.shuffle = Shuffle::kOff;
  EXPECT_THAT(refused(other), HasSubstr("its shuffle is global, this loader's off"));
}

TEST(ResumedLoader, ANewBatchSizeInTheMiddleOfAnEpochKeepsTheOrder) {
  for (const Shuffle shuffle : {Shuffle::kOff, Shuffle::kGlobal, Shuffle::kLocal, Shuffle::kFile}) {
    LoaderOptions same = options(230, 8);
    same.shuffle = shuffle;
    const auto reference = open(same);
    const auto loader = open(same);
    ASSERT_TRUE(loader->set_batch_size(10).ok());  // before the first epoch
    for (const uint64_t epoch : {0, 1}) {
      ASSERT_TRUE(loader->start_epoch(Epoch{epoch}).ok());
      auto rows = rows_of(take(*loader, 3));
      for (const uint64_t batch_size : {17, 32, 5}) {
        const LoaderState state = loader->state();
        ASSERT_TRUE(loader->set_batch_size(batch_size).ok());
        ASSERT_TRUE(loader->restore(state).ok());
        const auto batches = take(*loader, 2);
        ASSERT_EQ(batches.at(0).samples.size(), batch_size);
        const auto more = rows_of(batches);
        rows.insert(rows.end(), more.begin(), more.end());
      }
      const auto rest = rows_of(take(*loader));
      rows.insert(rows.end(), rest.begin(), rest.end());
      EXPECT_EQ(rows, rows_of(whole_epoch(*reference, epoch))) << order::shuffle_name(shuffle);
      ASSERT_TRUE(loader->set_batch_size(10).ok());  // between epochs
    }
    EXPECT_EQ(loader->stats().samples, 460u);
    EXPECT_GE(loader->stats().bytes_read, reference->stats().bytes_read / 2);
  }
}

TEST(ResumedLoader, RanksThatChangeTheirBatchSizeTogetherShareTheEpoch) {
  std::vector<uint64_t> all;
  for (const uint32_t rank : {0, 1, 2}) {
    LoaderOptions own = options(200, 4);
    own.world = {.rank = rank, .size = 3};
    const auto loader = open(own);
    ASSERT_TRUE(loader->start_epoch(Epoch{1}).ok());
    auto samples = samples_of(take(*loader, 5));
    const LoaderState state = loader->state();
    ASSERT_TRUE(loader->set_batch_size(16).ok());
    ASSERT_TRUE(loader->restore(state).ok());
    all.insert(all.end(), samples.begin(), samples.end());
    samples = samples_of(take(*loader));
    all.insert(all.end(), samples.begin(), samples.end());
  }
  std::ranges::sort(all);
  std::vector<uint64_t> expected(200);
  std::iota(expected.begin(), expected.end(), uint64_t{0});
  EXPECT_EQ(all, expected);
}

TEST(ResumedLoader, AnImpossibleBatchSizeChangesNothing) {
  LoaderOptions small = options(100, 10);
  small.memory_bytes = 64 << 10;
  const auto loader = open(small);
  ASSERT_TRUE(loader->start_epoch(Epoch{0}).ok());
  take(*loader, 2);
  EXPECT_THAT(loader->set_batch_size(0).error().message(), HasSubstr("batch_size is 0"));
  small.tail = Tail::kPad;
  const auto padding = open(small);
  EXPECT_THAT(padding->set_batch_size(1 << 20).error().message(), HasSubstr("memory_bytes"));
  EXPECT_EQ(samples_of(take(*loader)).size(), 80u);
  EXPECT_EQ(whole_epoch(*padding, 0).size(), 10u);
}

}  // namespace
}  // namespace millrace::loader
