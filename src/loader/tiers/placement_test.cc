#include "loader/tiers/placement.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace millrace::loader::tiers {
namespace {

using data::Epoch;
using data::SampleId;

constexpr uint64_t kSamples = 103;
constexpr uint32_t kRanks = 4;

PlacementOptions options_of(uint32_t rank) {
  auto order = order::make_order({.sample_count = kSamples, .seed = 5});
  EXPECT_TRUE(order.ok());
  return {.order = *std::move(order),
          .world = {rank, kRanks},
          .batch_size = 3,
          .horizon_epochs = 3,
          .shares = true};
}

// The rank that reads a sample in an epoch, computed from the shares.
std::map<SampleId, uint32_t> readers_in(const PlacementOptions& options, Epoch epoch,
                                        uint64_t done) {
  std::map<SampleId, uint32_t> readers;
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    const order::Share share({.sample_count = kSamples,
                              .done = done,
                              .world = {rank, kRanks},
                              .batch_size = options.batch_size,
                              .tail = options.tail});
    for (uint64_t index = 0; index < share.batch_count(); ++index) {
      const order::BatchPlan plan = share.batch(index);
      for (uint64_t row = 0; row < plan.real_count; ++row) {
        readers[options.order->at(epoch, share.position(plan, row))] = rank;
      }
    }
  }
  return readers;
}

TEST(Placement, FindsTheSameReadersAsTheShares) {
  for (const order::Tail tail : {order::Tail::kUneven, order::Tail::kDrop, order::Tail::kPad}) {
    for (const uint64_t done : {0, 24}) {
      PlacementOptions options = options_of(0);
      options.tail = tail;
      options.resumed_epoch = Epoch{1};
      options.resumed_done = done;
      const Placement placement(options);
      for (const Epoch epoch : {Epoch{0}, Epoch{1}}) {
        const auto readers = readers_in(options, epoch, epoch == Epoch{1} ? done : 0);
        for (uint64_t i = 0; i < kSamples; ++i) {
          const auto found = readers.find(SampleId{i});
          const auto expected =
              found == readers.end() ? std::nullopt : std::optional<uint32_t>(found->second);
          ASSERT_EQ(placement.reader_of(epoch, SampleId{i}), expected)
              << order::tail_name(tail) << ", sample " << i;
        }
      }
    }
  }
}

TEST(Placement, TheHomeOfASampleIsTheRankThatReadsItMostThenFirst) {
  const Placement placement(options_of(0));
  for (uint64_t i = 0; i < kSamples; ++i) {
    const SampleId sample{i};
    std::map<uint32_t, int> reads;
    for (uint64_t epoch = 3; epoch < 6; ++epoch)
      ++reads[*placement.reader_of(Epoch{epoch}, sample)];
    const uint32_t home = placement.home_of(Epoch{4}, sample);
    for (const auto& [rank, count] : reads) {
      EXPECT_LE(count, reads[home]);
      if (count == reads[home] && reads.size() == 3) {
        EXPECT_EQ(home, *placement.reader_of(Epoch{3}, sample));
      }
    }
  }
}

TEST(Placement, ASampleIsKeptByItsHomeOrItsLastReader) {
  const Placement placement(options_of(3));
  for (uint64_t i = 0; i < kSamples; ++i) {
    const SampleId sample{i};
    EXPECT_EQ(placement.keeper_for(Epoch{0}, sample, UseTime{}), std::nullopt);
    for (uint64_t block = 0; block < 2; ++block) {
      const uint32_t home = placement.home_of(Epoch{3 * block}, sample);
      bool has_read = false;
      for (uint64_t epoch = 3 * block; epoch < 3 * block + 3; ++epoch) {
        const uint32_t reader = *placement.reader_of(Epoch{epoch}, sample);
        has_read = has_read || reader == home;
        EXPECT_EQ(placement.keeper_for(Epoch{epoch + 1}, sample, UseTime{}),
                  has_read ? home : reader);
      }
    }
  }
}

TEST(Placement, EveryRankKnowsWhatTheOthersShouldHold) {
  std::set<SampleId> all;
  size_t count = 0;
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    const Placement own(options_of(rank));
    const Placement others(options_of((rank + 1) % kRanks));
    const auto held = own.held_by(rank, Epoch{0}, kSamples);
    EXPECT_EQ(held, others.held_by(rank, Epoch{2}, kSamples));
    EXPECT_EQ(std::vector<SampleId>(held.begin(), held.begin() + 5),
              others.held_by(rank, Epoch{0}, 5));
    all.insert(held.begin(), held.end());
    count += held.size();
  }
  EXPECT_EQ(count, kSamples);
  EXPECT_EQ(all.size(), kSamples);
}

TEST(Placement, HeldByListsTheMostReadSamplesFirst) {
  const Placement placement(options_of(2));
  const auto reads = [&](SampleId sample) {
    int count = 0;
    for (uint64_t epoch = 0; epoch < 3; ++epoch) {
      count += placement.reader_of(Epoch{epoch}, sample) == 2u ? 1 : 0;
    }
    return count;
  };
  const auto held = placement.held_by(2, Epoch{0}, kSamples);
  for (size_t i = 1; i < held.size(); ++i) EXPECT_GE(reads(held[i - 1]), reads(held[i]));
}

TEST(Placement, TheNextUseIsTheFirstReadOfThisRankOrAPeer) {
  for (const bool shares : {false, true}) {
    PlacementOptions options = options_of(1);
    options.shares = shares;
    options.epoch_limit = 5;
    const Placement placement(options);
    for (uint64_t i = 0; i < kSamples; ++i) {
      const SampleId sample{i};
      const UseTime now = placement.time_of(Epoch{1}, sample);
      std::optional<UseTime> expected;
      for (uint64_t epoch = 2; epoch < 5 && !expected; ++epoch) {
        const bool is_own = placement.reader_of(Epoch{epoch}, sample) == 1u;
        const bool is_asked = shares && placement.keeper_for(Epoch{epoch}, sample, UseTime{}) == 1u;
        if (is_own || is_asked) expected = placement.time_of(Epoch{epoch}, sample);
      }
      ASSERT_EQ(placement.next_use(sample, now), expected) << "sample " << i;
    }
  }
}

// 103 samples, 150 positions; sample 0 is drawn about 30 times.
PlacementOptions drawn_options(uint32_t rank) {
  PlacementOptions options = options_of(rank);
  auto drawing = std::make_shared<order::Drawing>();
  for (uint64_t i = 0; i < kSamples; ++i) drawing->weights.push_back(i == 0 ? 25 : 1);
  options.order = *order::make_order({.shuffle = order::Shuffle::kWeighted,
                                      .sample_count = kSamples,
                                      .seed = 5,
                                      .position_count = 150,
                                      .drawing = std::move(drawing)});
  return options;
}

TEST(Placement, FindsTheReadNearestToNowInADrawnOrder) {
  const Placement placement(drawn_options(2));
  const order::Order& order = *placement.options().order;
  for (uint64_t p = 2; p < 150; p += kRanks) {
    const SampleId sample = order.at(Epoch{1}, p);
    EXPECT_EQ(placement.time_near(Epoch{1}, sample, UseTime{150 + p}), UseTime{150 + p});
  }
  for (uint64_t i = 0; i < kSamples; ++i) {
    const auto first = order.first_at(Epoch{3}, SampleId{i}, 0);
    const auto found = placement.time_near(Epoch{3}, SampleId{i}, UseTime{3 * 150 + 70});
    EXPECT_EQ(found.has_value(), first.has_value());
    if (!found) continue;
    const uint64_t position = static_cast<uint64_t>(*found) - 3 * 150;
    EXPECT_EQ(order.at(Epoch{3}, position), SampleId{i});
  }
}

TEST(Placement, TheNextUseInADrawnOrderIsTheFirstReadOfThisRankOrOfAPeerThatItKeepsItFor) {
  for (const bool shares : {false, true}) {
    PlacementOptions options = drawn_options(1);
    options.shares = shares;
    options.epoch_limit = 5;
    const Placement placement(options);
    const order::Order& order = *options.order;
    for (const uint64_t after : {0, 40, 149, 150, 322}) {
      for (uint64_t i = 0; i < kSamples; ++i) {
        const SampleId sample{i};
        std::optional<UseTime> expected;
        const uint64_t end = std::min<uint64_t>(5, after / 150 + options.horizon_epochs + 1) * 150;
        for (uint64_t time = after + 1; time < end && !expected; ++time) {
          const Epoch epoch{time / 150};
          if (order.at(epoch, time % 150) != sample) continue;
          const bool is_own = time % 150 % kRanks == 1;
          const bool is_asked = shares && placement.keeper_for(epoch, sample, UseTime{time}) == 1u;
          if (is_own || is_asked) expected = UseTime{time};
        }
        ASSERT_EQ(placement.next_use(sample, UseTime{after}), expected) << i << " after " << after;
      }
    }
  }
}

TEST(Placement, ARankCountsTheReadsOfItsShare) {
  uint64_t all = 0;
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    all += Placement(options_of(rank)).reads_in(Epoch{0});
  }
  EXPECT_EQ(all, kSamples);
}

}  // namespace
}  // namespace millrace::loader::tiers
