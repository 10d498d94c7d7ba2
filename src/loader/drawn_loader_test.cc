// Tests loaders over orders that are drawn: by weights, as a mixture, or from a list.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "loader/testing/seen_batches.h"

namespace millrace::loader {
namespace {

using data::Epoch;
using testing::HasSubstr;

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

TEST(DrawnLoader, AnEpochOfADrawnOrderMayBeLongerOrShorterThanTheDataset) {
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

TEST(DrawnLoader, AStateOfADrawnOrderResumesInAWorldOfAnotherSize) {
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

TEST(DrawnLoader, RefusesAStateOfOtherWeightsPartsOrLists) {
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

TEST(DrawnLoader, AListedEpochMustBeGivenAndThePrefetcherDoesNotGoBeyond) {
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
TEST(DrawnLoader, RepeatedSamplesAreDecodedWithDifferentRandomNumbers) {
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

}  // namespace
}  // namespace millrace::loader
