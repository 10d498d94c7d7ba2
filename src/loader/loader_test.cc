#include "loader/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "data/subset_source.h"
#include "loader/testing/fakes.h"

namespace millrace::loader {
namespace {

using data::Epoch;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A copy of a batch, which can be compared and lets the loader reuse the memory.
struct Seen {
  uint64_t epoch = 0;
  uint64_t index = 0;
  std::vector<uint64_t> samples;
  std::vector<int64_t> labels;
  std::vector<uint8_t> is_real;
  std::vector<std::vector<std::byte>> fields;

  bool operator==(const Seen&) const = default;
};

Seen seen(const data::Batch& batch) {
  Seen seen{.epoch = data::number_of(batch.epoch), .index = batch.index};
  for (const data::SampleId id : batch.samples) seen.samples.push_back(data::index_of(id));
  seen.labels.assign(batch.labels.begin(), batch.labels.end());
  seen.is_real.assign(batch.is_real.begin(), batch.is_real.end());
  for (const auto& field : batch.fields) {
    EXPECT_EQ(field.bytes.size(), batch.row_count * field.spec.size_bytes());
    seen.fields.emplace_back(field.bytes.begin(), field.bytes.end());
  }
  EXPECT_EQ(batch.samples.size(), batch.row_count);
  EXPECT_EQ(batch.labels.size(), batch.row_count);
  EXPECT_EQ(batch.is_real.size(), batch.row_count);
  return seen;
}

LoaderOptions options(uint64_t sample_count, uint64_t batch_size) {
  LoaderOptions options;
  options.source = std::make_shared<FakeSource>(sample_count);
  options.decoder = std::make_shared<FakeDecoder>();
  options.batch_size = batch_size;
  options.seed = 7;
  options.thread_count = 3;
  return options;
}

std::unique_ptr<Loader> open(const LoaderOptions& options) {
  auto loader = Loader::open(options);
  EXPECT_TRUE(loader.ok()) << loader.error().message();
  return loader.ok() ? *std::move(loader) : nullptr;
}

std::vector<Seen> take(Loader& loader, size_t count = 1'000'000) {
  std::vector<Seen> batches;
  while (batches.size() < count) {
    auto batch = loader.next();
    EXPECT_TRUE(batch.ok()) << batch.error().message();
    if (!batch.ok() || !*batch) break;
    batches.push_back(seen(**batch));
  }
  return batches;
}

std::vector<Seen> whole_epoch(Loader& loader, uint64_t epoch) {
  EXPECT_TRUE(loader.start_epoch(Epoch{epoch}).ok());
  return take(loader);
}

std::vector<uint64_t> samples_of(const std::vector<Seen>& batches) {
  std::vector<uint64_t> samples;
  for (const Seen& batch : batches) {
    samples.insert(samples.end(), batch.samples.begin(), batch.samples.end());
  }
  return samples;
}

// All rows, without batch boundaries: they must not depend on the batch size.
using Rows = std::vector<std::tuple<uint64_t, int64_t, std::vector<std::byte>>>;
Rows rows_of(const std::vector<Seen>& batches) {
  Rows rows;
  for (const Seen& batch : batches) {
    const size_t count = batch.samples.size();
    for (size_t row = 0; row < count; ++row) {
      std::vector<std::byte> bytes;
      for (const auto& field : batch.fields) {
        const auto size = static_cast<ptrdiff_t>(field.size() / count);
        const auto begin = field.begin() + static_cast<ptrdiff_t>(row) * size;
        bytes.insert(bytes.end(), begin, begin + size);
      }
      rows.emplace_back(batch.samples[row], batch.labels[row], bytes);
    }
  }
  return rows;
}

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

TEST(Loader, AStateResumesBitForBitWhereItWasSaved) {
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

TEST(Loader, ANewBatchSizeInTheMiddleOfAnEpochKeepsTheOrder) {
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

TEST(Loader, RanksThatChangeTheirBatchSizeTogetherShareTheEpoch) {
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

TEST(Loader, AnImpossibleBatchSizeChangesNothing) {
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

TEST(Loader, AResumedRunCountsItsBatchesFromTheStartOfTheEpoch) {
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

TEST(Loader, AStateAtTheEndOfAnEpochHasNoMoreBatches) {
  const auto loader = open(options(20, 10));
  whole_epoch(*loader, 0);
  const LoaderState state = loader->state();
  const auto resumed = open(options(20, 10));
  ASSERT_TRUE(resumed->restore(state).ok());
  EXPECT_THAT(take(*resumed), IsEmpty());
  EXPECT_EQ(whole_epoch(*resumed, 1), whole_epoch(*open(options(20, 10)), 1));
}

TEST(Loader, RefusesAStateOfOtherSamplesOfTheSameNumber) {
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

TEST(Loader, AStateResumesInAWorldOfAnotherSize) {
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

// The lists of epochs 1 and 2 repeat samples and lack others.
LoaderOptions drawn(Shuffle shuffle, uint64_t position_count) {
  LoaderOptions wanted = options(100, 6);
  wanted.shuffle = shuffle;
  wanted.position_count = position_count;
  auto drawing = std::make_shared<order::Drawing>();
  for (uint64_t i = 0; i < 100; ++i) drawing->weights.push_back(static_cast<double>(i % 4));
  drawing->mixture = {.proportions = {0.6, 0.4}, .part_begins = {0, 20, 100}};
  drawing->lists = std::make_shared<order::EpochLists>(100, position_count);
  for (const uint64_t epoch : {1, 2}) {
    std::vector<int64_t> list;
    for (uint64_t i = 0; i < position_count; ++i) {
      list.push_back(static_cast<int64_t>((i * i * (epoch + 2) + 7) % 100));
    }
    EXPECT_TRUE(drawing->lists->put(Epoch{epoch}, list).ok());
  }
  wanted.drawing = std::move(drawing);
  return wanted;
}

constexpr Shuffle kDrawnShuffles[] = {Shuffle::kWeighted, Shuffle::kMixture, Shuffle::kListed};

std::vector<uint64_t> samples_of_order(const order::Order& order, uint64_t epoch) {
  std::vector<uint64_t> samples;
  for (uint64_t i = 0; i < order.size(); ++i) {
    samples.push_back(data::index_of(order.at(Epoch{epoch}, i)));
  }
  return samples;
}

TEST(Loader, AnEpochOfADrawnOrderMayBeLongerOrShorterThanTheDataset) {
  for (const Shuffle shuffle : kDrawnShuffles) {
    for (const uint64_t position_count : {5, 40, 250}) {
      LoaderOptions long_batch = drawn(shuffle, position_count);
      long_batch.batch_size = 120;
      const auto loader = open(long_batch);
      const auto batches = whole_epoch(*loader, 1);
      EXPECT_EQ(batches.size(), (position_count + 119) / 120);
      EXPECT_EQ(samples_of(batches), samples_of_order(loader->order(), 1));
      EXPECT_EQ(samples_of(whole_epoch(*loader, 2)), samples_of_order(loader->order(), 2));
    }
  }
}

TEST(Loader, AStateOfADrawnOrderResumesInAWorldOfAnotherSize) {
  for (const Shuffle shuffle : kDrawnShuffles) {
    std::vector<uint64_t> samples;
    LoaderState state;
    for (uint32_t rank = 0; rank < 2; ++rank) {
      LoaderOptions shared = drawn(shuffle, 170);
      shared.world = {.rank = rank, .size = 2};
      const auto loader = open(shared);
      ASSERT_TRUE(loader->start_epoch(Epoch{1}).ok());
      for (const uint64_t sample : samples_of(take(*loader, 4))) samples.push_back(sample);
      state = *LoaderState::parse(loader->state().text());
    }
    EXPECT_EQ(state.done, 48u);
    EXPECT_TRUE(state.drawn_from.has_value());
    std::vector<uint64_t> expected;
    for (uint32_t rank = 0; rank < 3; ++rank) {
      LoaderOptions shared = drawn(shuffle, 170);
      shared.world = {.rank = rank, .size = 3};
      const auto loader = open(shared);
      const Status restored = loader->restore(state);
      ASSERT_TRUE(restored.ok()) << restored.error().message();
      for (const uint64_t sample : samples_of(take(*loader))) samples.push_back(sample);
      expected = samples_of_order(loader->order(), 1);
    }
    std::ranges::sort(samples);
    std::ranges::sort(expected);
    EXPECT_EQ(samples, expected) << order::shuffle_name(shuffle);
  }
}

TEST(Loader, RefusesAStateOfOtherWeightsPartsOrLists) {
  const auto refused = [](const LoaderState& state, const LoaderOptions& other) {
    const Status status = open(other)->restore(state);
    return status.ok() ? std::string("not refused") : status.error().message();
  };
  const auto changed = [](Shuffle shuffle, auto change) {
    LoaderOptions other = drawn(shuffle, 40);
    auto drawing = std::make_shared<order::Drawing>(*other.drawing);
    change(*drawing);
    other.drawing = std::move(drawing);
    return other;
  };
  const auto state_of = [](const LoaderOptions& saved) {
    const auto loader = open(saved);
    EXPECT_TRUE(loader->start_epoch(Epoch{1}).ok());
    return loader->state();
  };
  const LoaderState weighted = state_of(drawn(Shuffle::kWeighted, 40));
  EXPECT_THAT(refused(weighted, changed(Shuffle::kWeighted, [](auto& d) { d.weights[7] = 9; })),
              HasSubstr("its weights differ from this loader's"));
  EXPECT_THAT(refused(weighted, drawn(Shuffle::kWeighted, 41)),
              HasSubstr("number of positions in an epoch is 40, this loader's 41"));
  EXPECT_THAT(refused(weighted, drawn(Shuffle::kMixture, 40)),
              HasSubstr("its shuffle is weighted, this loader's mixture"));
  const LoaderState mixture = state_of(drawn(Shuffle::kMixture, 40));
  EXPECT_THAT(refused(mixture, changed(Shuffle::kMixture,
                                       [](auto& d) { d.mixture.proportions = {0.5, 0.5}; })),
              HasSubstr("its parts or proportions differ"));
  const LoaderState listed = state_of(drawn(Shuffle::kListed, 40));
  const LoaderOptions other = drawn(Shuffle::kListed, 40);
  ASSERT_TRUE(other.drawing->lists->put(Epoch{1}, std::vector<int64_t>(40, 3)).ok());
  EXPECT_THAT(refused(listed, other), HasSubstr("its indices of the epoch differ"));
}

TEST(Loader, AListedEpochMustBeGivenAndThePrefetcherDoesNotGoBeyond) {
  LoaderOptions listed = drawn(Shuffle::kListed, 40);
  listed.thread_count = 1;
  const auto source = std::make_shared<FakeSource>(100);
  listed.source = source;
  const auto loader = open(listed);
  const Status unknown = loader->start_epoch(Epoch{0});
  ASSERT_FALSE(unknown.ok());
  EXPECT_THAT(unknown.error().message(), HasSubstr("the list of epoch 0 was not given"));
  EXPECT_EQ(whole_epoch(*loader, 2).size(), 7u);  // of an epoch without a next one
  EXPECT_EQ(source->read_count(), 40u);
  EXPECT_FALSE(loader->start_epoch(Epoch{3}).ok());
  ASSERT_TRUE(listed.drawing->lists->put(Epoch{3}, std::vector<int64_t>(40, 5)).ok());
  EXPECT_EQ(samples_of(whole_epoch(*loader, 3)), std::vector<uint64_t>(40, 5));
}

// Otherwise a sample that is drawn ten times in an epoch would have the same crop ten times.
TEST(Loader, RepeatedSamplesAreDecodedWithDifferentRandomNumbers) {
  LoaderOptions listed = drawn(Shuffle::kListed, 40);
  const auto decoder = std::make_shared<SeedDecoder>();
  listed.decoder = decoder;
  ASSERT_TRUE(listed.drawing->lists->put(Epoch{1}, std::vector<int64_t>(40, 3)).ok());
  const auto seeds = rows_of(whole_epoch(*open(listed), 1));
  std::set<std::vector<std::byte>> different;
  for (const auto& [sample, label, seed] : seeds) different.insert(seed);
  EXPECT_EQ(different.size(), 40u);
  listed.batch_size = 9;
  EXPECT_EQ(rows_of(whole_epoch(*open(listed), 1)), seeds);
}

TEST(Loader, RefusesAStateOfAnotherOrderAndSaysWhatDiffers) {
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
