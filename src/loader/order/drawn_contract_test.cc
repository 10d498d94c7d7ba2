// Tests what every order guarantees that is not a permutation (order.h).
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/numbers/random.h"
#include "loader/order/order.h"

namespace millrace::loader::order {
namespace {

using data::Epoch;
using data::SampleId;

struct Kind {
  std::string name;
  Shuffle shuffle{};
  bool replaces = true;
};

class DrawnContract : public testing::TestWithParam<Kind> {
 protected:
  static constexpr uint64_t kSamples = 500;
  static constexpr uint64_t kPositions = 300;

  // Weights of 0 to 4; parts of 100, 1 and 399 samples.
  static std::unique_ptr<Order> order(uint64_t seed = 5) {
    auto drawing = std::make_shared<Drawing>();
    for (uint64_t i = 0; i < kSamples; ++i) drawing->weights.push_back(static_cast<double>(i % 5));
    drawing->replaces = GetParam().replaces;
    drawing->mixture = {.proportions = {0.5, 0.1, 0.4}, .part_begins = {0, 100, 101, kSamples}};
    drawing->lists = std::make_shared<EpochLists>(kSamples, kPositions);
    for (uint64_t epoch = 0; epoch < EpochLists::kKeptCount; ++epoch) {
      Random random(seed * 100 + epoch);
      std::vector<int64_t> list;
      for (uint64_t i = 0; i < kPositions; ++i) {
        list.push_back(static_cast<int64_t>(random.below(kSamples)));
      }
      EXPECT_TRUE(drawing->lists->put(Epoch{epoch}, list).ok());
    }
    return std::move(*make_order({.shuffle = GetParam().shuffle,
                                  .sample_count = kSamples,
                                  .seed = seed,
                                  .position_count = kPositions,
                                  .drawing = std::move(drawing)}));
  }

  static std::vector<SampleId> all_of(const Order& order, Epoch epoch) {
    std::vector<SampleId> samples;
    for (uint64_t p = 0; p < order.size(); ++p) samples.push_back(order.at(epoch, p));
    return samples;
  }
};

TEST_P(DrawnContract, AnEpochHasItsPositionsAndOnlySamplesOfTheDataset) {
  const auto asked = order();
  EXPECT_FALSE(asked->is_permutation());
  EXPECT_EQ(asked->size(), kPositions);
  EXPECT_EQ(asked->sample_count(), kSamples);
  for (uint64_t e = 0; e < 4; ++e) {
    ASSERT_TRUE(asked->knows(Epoch{e}));
    for (const SampleId sample : all_of(*asked, Epoch{e})) {
      ASSERT_LT(data::index_of(sample), kSamples);
    }
  }
}

TEST_P(DrawnContract, EqualOptionsGiveEqualOrdersAfterAnyQueries) {
  const auto first = order();
  const auto second = order();
  const auto later = all_of(*first, Epoch{3});
  for (uint64_t e = 0; e < 3; ++e) all_of(*second, Epoch{e});
  EXPECT_EQ(all_of(*second, Epoch{3}), later);
  EXPECT_EQ(all_of(*first, Epoch{0}), all_of(*second, Epoch{0}));
  EXPECT_EQ(first->drawn_from(Epoch{1}), second->drawn_from(Epoch{1}));
  EXPECT_NE(first->drawn_from(Epoch{1}), std::nullopt);
}

TEST_P(DrawnContract, OtherEpochsAndSeedsGiveOtherOrders) {
  const auto first = all_of(*order(5), Epoch{0});
  EXPECT_NE(all_of(*order(5), Epoch{1}), first);
  EXPECT_NE(all_of(*order(6), Epoch{0}), first);
  EXPECT_NE(all_of(*order(6), Epoch{0}), all_of(*order(5), Epoch{1}));
}

TEST_P(DrawnContract, FillEqualsAtForAnyStrideAndEpoch) {
  const auto asked = order();
  for (const uint64_t e : {0, 1, 2, 3, 2, 0}) {
    for (const uint64_t stride : {1, 2, 7, 100}) {
      for (const uint64_t first : {0, 3, 6}) {
        std::vector<SampleId> out((kPositions - first + stride - 1) / stride);
        asked->fill(Epoch{e}, first, stride, out);
        for (uint64_t i = 0; i < out.size(); ++i) {
          ASSERT_EQ(out[i], asked->at(Epoch{e}, first + i * stride)) << e << " " << stride;
        }
      }
    }
  }
  asked->fill(Epoch{0}, 0, 1, {});
}

TEST_P(DrawnContract, FindsEveryPositionOfASample) {
  const auto asked = order();
  for (const uint64_t e : {0, 2}) {
    const auto all = all_of(*asked, Epoch{e});
    for (uint64_t i = 0; i < kSamples; ++i) {
      std::vector<uint64_t> expected;
      for (uint64_t p = 0; p < all.size(); ++p) {
        if (data::index_of(all[p]) == i) expected.push_back(p);
      }
      std::vector<uint64_t> forward;
      for (auto p = asked->first_at(Epoch{e}, SampleId{i}, 0); p;
           p = asked->first_at(Epoch{e}, SampleId{i}, *p + 1)) {
        forward.push_back(*p);
      }
      EXPECT_EQ(forward, expected) << i;
      std::vector<uint64_t> backward;
      for (auto p = asked->last_before(Epoch{e}, SampleId{i}, kPositions); p;
           p = asked->last_before(Epoch{e}, SampleId{i}, *p)) {
        backward.push_back(*p);
      }
      std::ranges::reverse(backward);
      EXPECT_EQ(backward, expected) << i;
      EXPECT_EQ(asked->position_of(Epoch{e}, SampleId{i}),
                expected.empty() ? kPositions : expected.front());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllDrawnOrders, DrawnContract,
                         testing::Values(Kind{"weighted", Shuffle::kWeighted},
                                         Kind{"weighted_once", Shuffle::kWeighted, false},
                                         Kind{"mixture", Shuffle::kMixture},
                                         Kind{"listed", Shuffle::kListed}),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace millrace::loader::order
