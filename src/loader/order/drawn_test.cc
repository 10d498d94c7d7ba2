// Tests what the orders that are not permutations guarantee beyond their contract.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "loader/order/alias_table.h"
#include "loader/order/drawing.h"
#include "loader/order/order.h"

namespace millrace::loader::order {
namespace {

using data::Epoch;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

struct Wanted {
  uint64_t sample_count = 0;
  uint64_t position_count = 0;
  uint64_t seed = 1;
};

Options options_of(Shuffle shuffle, const Wanted& wanted, Drawing drawing) {
  return {.shuffle = shuffle,
          .sample_count = wanted.sample_count,
          .seed = wanted.seed,
          .position_count = wanted.position_count,
          .drawing = std::make_shared<Drawing>(std::move(drawing))};
}

std::unique_ptr<Order> made(const Options& options) {
  auto order = make_order(options);
  EXPECT_TRUE(order.ok()) << order.error().message();
  return std::move(*order);
}

std::string refused(const Options& options) {
  const auto order = make_order(options);
  return order.ok() ? "" : order.error().message();
}

std::vector<uint64_t> epoch_of(const Order& order, uint64_t epoch) {
  std::vector<uint64_t> samples;
  for (uint64_t p = 0; p < order.size(); ++p) {
    samples.push_back(data::index_of(order.at(Epoch{epoch}, p)));
  }
  return samples;
}

std::vector<uint64_t> first_five(const Options& options) {
  auto samples = epoch_of(*made(options), 2);
  samples.resize(5);
  return samples;
}

// The sum of (count - expected)^2 / expected.
double chi_square(const std::vector<uint64_t>& counts, const std::vector<double>& expected) {
  double sum = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    const double off = static_cast<double>(counts[i]) - expected[i];
    sum += off * off / expected[i];
  }
  return sum;
}

// Orders must never change: another build may resume a job.
TEST(DrawnOrder, NeverChanges) {
  std::vector<double> weights;
  for (uint64_t i = 0; i < 1000; ++i) weights.push_back(static_cast<double>(1 + i % 7));
  std::vector<double> steep = weights;
  for (uint64_t i = 0; i < 1000; i += 50) steep[i] = 1e6;
  const Wanted wanted{.sample_count = 1000, .position_count = 1000, .seed = 42};
  EXPECT_THAT(first_five(options_of(Shuffle::kWeighted, wanted, {})),
              ElementsAre(149, 337, 450, 909, 374));
  EXPECT_THAT(first_five(options_of(Shuffle::kWeighted, wanted, {.weights = weights})),
              ElementsAre(149, 337, 450, 909, 374));
  EXPECT_THAT(first_five(options_of(Shuffle::kWeighted, wanted, {.weights = steep})),
              ElementsAre(100, 300, 500, 900, 350));
  EXPECT_THAT(
      first_five(options_of(Shuffle::kWeighted, wanted, {.weights = weights, .replaces = false})),
      ElementsAre(558, 740, 330, 286, 472));
  EXPECT_THAT(first_five(options_of(
                  Shuffle::kMixture, wanted,
                  {.mixture = {.proportions = {0.7, 0.3}, .part_begins = {0, 100, 1000}}})),
              ElementsAre(84, 36, 88, 82, 44));
}

TEST(WeightedOrder, DrawsInTheRatioOfTheWeights) {
  const std::vector<double> weights = {0, 1, 2, 3, 4, 0.5, 1e-30};
  const auto order = made(options_of(
      Shuffle::kWeighted, {.sample_count = 7, .position_count = 105'000}, {.weights = weights}));
  std::vector<uint64_t> counts(7);
  for (const uint64_t sample : epoch_of(*order, 0)) ++counts[sample];
  EXPECT_EQ(counts[0], 0u);
  EXPECT_EQ(counts[6], 0u);
  const std::vector<uint64_t> drawn(counts.begin() + 1, counts.begin() + 6);
  // 4 degrees of freedom: 99.9 % of draws stay below 18.5.
  EXPECT_LT(chi_square(drawn, {10'000, 20'000, 30'000, 40'000, 5'000}), 18.5);
}

TEST(WeightedOrder, DrawsEpochsIndependently) {
  const auto order =
      made(options_of(Shuffle::kWeighted, {.sample_count = 10, .position_count = 1}, {}));
  std::vector<uint64_t> counts(100);
  for (uint64_t e = 0; e < 20'000; e += 2) {
    ++counts[epoch_of(*order, e)[0] * 10 + epoch_of(*order, e + 1)[0]];
  }
  // 99 degrees of freedom: 99.9 % stay below 149.
  EXPECT_LT(chi_square(counts, std::vector<double>(100, 100)), 149);
}

TEST(WeightedOrder, WithoutReplacementHasNoSampleTwice) {
  const auto order = made(options_of(Shuffle::kWeighted, {.sample_count = 6, .position_count = 5},
                                     {.weights = {1, 0, 1, 5, 1, 100}, .replaces = false}));
  for (uint64_t e = 0; e < 50; ++e) {
    auto samples = epoch_of(*order, e);
    std::ranges::sort(samples);
    EXPECT_THAT(samples, ElementsAre(0, 2, 3, 4, 5));
  }
}

// The probability that a sequence of draws without replacement begins with two given samples.
TEST(WeightedOrder, WithoutReplacementDrawsFromWhatIsLeft) {
  const std::vector<double> weights = {1, 2, 3, 4};
  const auto order = made(options_of(Shuffle::kWeighted, {.sample_count = 4, .position_count = 2},
                                     {.weights = weights, .replaces = false}));
  constexpr uint64_t kEpochs = 20'000;
  std::vector<uint64_t> counts;
  std::vector<double> expected;
  std::map<std::vector<uint64_t>, uint64_t> seen;
  for (uint64_t e = 0; e < kEpochs; ++e) ++seen[epoch_of(*order, e)];
  for (uint64_t a = 0; a < 4; ++a) {
    for (uint64_t b = 0; b < 4; ++b) {
      if (a == b) continue;
      counts.push_back(seen[{a, b}]);
      expected.push_back(kEpochs * weights[a] / 10 * weights[b] / (10 - weights[a]));
    }
  }
  // 11 degrees of freedom: 99.9 % stay below 31.3.
  EXPECT_LT(chi_square(counts, expected), 31.3);
}

TEST(WeightedOrder, OfEqualWeightsWithoutReplacementIsAPrefixOfAPermutation) {
  const auto order = made(options_of(Shuffle::kWeighted, {.sample_count = 50, .position_count = 50},
                                     {.replaces = false}));
  auto samples = epoch_of(*order, 3);
  EXPECT_FALSE(std::ranges::is_sorted(samples));
  std::ranges::sort(samples);
  for (uint64_t i = 0; i < 50; ++i) EXPECT_EQ(samples[i], i);
}

TEST(WeightedOrder, RefusesWeightsThatCannotBeDrawnFrom) {
  const auto with = [](std::vector<double> weights, uint64_t count = 3, bool replaces = true) {
    return refused(options_of(Shuffle::kWeighted, {.sample_count = 3, .position_count = count},
                              {.weights = std::move(weights), .replaces = replaces}));
  };
  EXPECT_THAT(with({1, 2}), HasSubstr("2 weights for 3 samples"));
  EXPECT_THAT(with({1, -2, 3}), HasSubstr("weight 1 is -2"));
  EXPECT_THAT(with({1, 2, std::nan("")}), HasSubstr("weight 2 is nan"));
  EXPECT_THAT(with({std::numeric_limits<double>::infinity(), 2, 3}), HasSubstr("weight 0 is inf"));
  EXPECT_THAT(with({0, 0, 0}), HasSubstr("no weight is positive"));
  EXPECT_THAT(with({1, 0, 1}, 3, false),
              HasSubstr("3 samples cannot be drawn from 2 with a positive weight"));
  EXPECT_EQ(with({1, 0, 1}, 2, false), "");
  EXPECT_EQ(with({5e-324, 0, 1.7e308}), "");
  EXPECT_THAT(refused(options_of(Shuffle::kWeighted, {.sample_count = 0, .position_count = 2}, {})),
              HasSubstr("from an empty dataset"));
  EXPECT_THAT(refused({.shuffle = Shuffle::kWeighted, .sample_count = 3}),
              HasSubstr("needs what to draw from"));
}

TEST(AliasTable, HasExactlyTheRatioOfTheWeights) {
  const std::vector<uint64_t> weights = {3, 0, 1, 4, 8};
  const AliasTable table(weights);
  std::vector<uint64_t> counts(5);
  constexpr uint64_t kSteps = 80;  // a multiple of the columns and of the sum of the weights
  for (uint64_t a = 0; a < 5; ++a) {
    for (uint64_t b = 0; b < kSteps; ++b) {
      const auto unit = [](uint64_t i, uint64_t count) {
        return (~uint64_t{0} / count) * i + ~uint64_t{0} / count / 2;
      };
      ++counts[table.draw(unit(a, 5), unit(b, kSteps))];
    }
  }
  EXPECT_THAT(counts, ElementsAre(75, 0, 25, 100, 200));
}

TEST(Drawing, ApportionsByTheLargestRemainder) {
  EXPECT_THAT(apportioned(std::vector<double>{0.7, 0.2, 0.1}, 1000), ElementsAre(700, 200, 100));
  EXPECT_THAT(apportioned(std::vector<double>{1, 1, 1}, 10), ElementsAre(4, 3, 3));
  EXPECT_THAT(apportioned(std::vector<double>{0.5, 0.3, 0.2}, 7), ElementsAre(4, 2, 1));
  EXPECT_THAT(apportioned(std::vector<double>{1e-300, 1e300}, 5), ElementsAre(0, 5));
  EXPECT_THAT(apportioned(std::vector<double>{3}, 0), ElementsAre(0));
}

Drawing two_parts() {
  return {.mixture = {.proportions = {0.75, 0.25}, .part_begins = {0, 10, 1000}}};
}

TEST(MixtureOrder, EveryEpochHasTheSameNumberOfEachPart) {
  const auto order = made(
      options_of(Shuffle::kMixture, {.sample_count = 1000, .position_count = 40}, two_parts()));
  std::vector<uint64_t> at_first(2);
  for (uint64_t e = 0; e < 400; ++e) {
    const auto samples = epoch_of(*order, e);
    EXPECT_EQ(std::ranges::count_if(samples, [](uint64_t s) { return s < 10; }), 30);
    ++at_first[samples[0] < 10 ? 0 : 1];
  }
  EXPECT_LT(chi_square(at_first, {300, 100}), 10.8);  // parts are at any position
}

TEST(MixtureOrder, HasNoSampleOfAPartTwiceBeforeAllWereDrawn) {
  const auto order = made(
      options_of(Shuffle::kMixture, {.sample_count = 1000, .position_count = 40}, two_parts()));
  std::map<uint64_t, uint64_t> counts;
  for (uint64_t e = 0; e < 99; ++e) {  // 990 draws from 990 samples; 2970 from 10
    for (const uint64_t sample : epoch_of(*order, e)) ++counts[sample];
  }
  for (uint64_t i = 0; i < 1000; ++i) EXPECT_EQ(counts[i], i < 10 ? 297u : 1u) << i;
}

TEST(MixtureOrder, APartMayBeAListOfSamples) {
  const auto order = made(options_of(
      Shuffle::kMixture, {.sample_count = 10, .position_count = 6},
      {.mixture = {.proportions = {1, 1}, .part_begins = {0, 1, 4}, .members = {9, 2, 4, 6}}}));
  auto samples = epoch_of(*order, 0);
  std::ranges::sort(samples);
  EXPECT_THAT(samples, ElementsAre(2, 4, 6, 9, 9, 9));
}

TEST(MixtureOrder, LateEpochsDoNotOverflow) {
  const auto order = made(
      options_of(Shuffle::kMixture, {.sample_count = 1000, .position_count = 40}, two_parts()));
  EXPECT_THAT(epoch_of(*order, ~uint64_t{0}), Each(testing::Lt(1000u)));
}

TEST(MixtureOrder, RefusesInvalidParts) {
  const auto with = [](Mixture mixture, uint64_t count = 8) {
    return refused(options_of(Shuffle::kMixture, {.sample_count = 10, .position_count = count},
                              {.mixture = std::move(mixture)}));
  };
  EXPECT_THAT(with({}), HasSubstr("no proportion is positive"));
  EXPECT_THAT(with({.proportions = {0, 0}, .part_begins = {0, 5, 10}}),
              HasSubstr("no proportion is positive"));
  EXPECT_THAT(with({.proportions = {1, -1}, .part_begins = {0, 5, 10}}),
              HasSubstr("proportion 1 is -1"));
  EXPECT_THAT(with({.proportions = {1, 1}, .part_begins = {0, 10}}), HasSubstr("end at 10"));
  EXPECT_THAT(with({.proportions = {1, 1}, .part_begins = {0, 5, 9}}), HasSubstr("end at 10"));
  EXPECT_THAT(with({.proportions = {1, 1}, .part_begins = {0, 11, 10}}), HasSubstr("end at 10"));
  EXPECT_THAT(with({.proportions = {1, 1}, .part_begins = {0, 0, 10}}),
              HasSubstr("part 0 of the mixture has no samples"));
  EXPECT_THAT(with({.proportions = {1, 1000}, .part_begins = {0, 5, 10}}),
              HasSubstr("an epoch of 8 samples has none of part 0"));
  EXPECT_THAT(with({.proportions = {1}, .part_begins = {0, 1}, .members = {10}}),
              HasSubstr("sample 10, but there are 10 samples"));
}

TEST(ListedOrder, IsWhatTheProgramGave) {
  const auto lists = std::make_shared<EpochLists>(10, 4);
  const auto order = made(
      options_of(Shuffle::kListed, {.sample_count = 10, .position_count = 4}, {.lists = lists}));
  EXPECT_FALSE(order->knows(Epoch{7}));
  EXPECT_EQ(order->drawn_from(Epoch{7}), std::nullopt);
  EXPECT_EQ(order->first_at(Epoch{7}, data::SampleId{3}, 0), std::nullopt);
  ASSERT_TRUE(lists->put(Epoch{7}, std::vector<int64_t>{3, 3, 0, 9}).ok());
  EXPECT_TRUE(order->knows(Epoch{7}));
  EXPECT_THAT(epoch_of(*order, 7), ElementsAre(3, 3, 0, 9));
  EXPECT_EQ(order->first_at(Epoch{7}, data::SampleId{3}, 1), 1u);
  const auto before = order->drawn_from(Epoch{7});
  ASSERT_TRUE(lists->put(Epoch{7}, std::vector<int64_t>{3, 0, 3, 9}).ok());
  EXPECT_THAT(epoch_of(*order, 7), ElementsAre(3, 0, 3, 9));
  EXPECT_NE(order->drawn_from(Epoch{7}), before);
}

TEST(ListedOrder, KeepsTheLatestLists) {
  EpochLists lists(1, 1);
  for (const uint64_t epoch : {0, 1, 2, 1, 3, 4}) {
    ASSERT_TRUE(lists.put(Epoch{epoch}, std::vector<int64_t>{0}).ok());
  }
  std::set<uint64_t> kept;
  for (uint64_t epoch = 0; epoch < 6; ++epoch) {
    if (lists.find(Epoch{epoch})) kept.insert(epoch);
  }
  EXPECT_THAT(kept, ElementsAre(1, 2, 3, 4));
}

TEST(ListedOrder, RefusesListsOfAnotherLengthOrDataset) {
  EpochLists lists(10, 2);
  const auto put = [&](std::vector<int64_t> list) {
    const Status status = lists.put(Epoch{3}, list);
    return status.ok() ? "" : status.error().message();
  };
  EXPECT_EQ(put({0, 9}), "");
  EXPECT_THAT(put({0}), HasSubstr("epoch 3 has 1 indices, but every epoch of this order has 2"));
  EXPECT_THAT(put({0, 10}), HasSubstr("epoch 3: index 10 at position 1 is out of range; there are "
                                      "10 samples"));
  EXPECT_THAT(put({-1, 0}), HasSubstr("index -1 at position 0"));
  EXPECT_THAT(refused(options_of(Shuffle::kListed, {.sample_count = 10, .position_count = 3},
                                 {.lists = std::make_shared<EpochLists>(10, 2)})),
              HasSubstr("needs lists of the same numbers"));
}

TEST(DrawnOrder, OtherWeightsPartsOrProportionsHaveOtherFingerprints) {
  const auto mark = [](Shuffle shuffle, Drawing drawing) {
    return made(options_of(shuffle, {.sample_count = 4, .position_count = 4}, std::move(drawing)))
        ->drawn_from(Epoch{0});
  };
  const std::set<std::optional<uint32_t>> marks = {
      mark(Shuffle::kWeighted, {}),
      mark(Shuffle::kWeighted, {.replaces = false}),
      mark(Shuffle::kWeighted, {.weights = {1, 1, 1, 1}}),
      mark(Shuffle::kWeighted, {.weights = {1, 1, 1, 2}}),
      mark(Shuffle::kMixture, {.mixture = {{1, 1}, {0, 2, 4}, {}}}),
      mark(Shuffle::kMixture, {.mixture = {{1, 3}, {0, 2, 4}, {}}}),
      mark(Shuffle::kMixture, {.mixture = {{1, 1}, {0, 1, 4}, {}}}),
      mark(Shuffle::kMixture, {.mixture = {{1, 1}, {0, 2, 4}, {3, 2, 1, 0}}}),
  };
  EXPECT_EQ(marks.size(), 8u);
}

}  // namespace
}  // namespace millrace::loader::order
