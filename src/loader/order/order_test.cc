// Tests what individual orders guarantee beyond the contract.
#include "loader/order/order.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <limits>
#include <set>
#include <vector>

#include "loader/order/shards.h"

namespace millrace::loader::order {
namespace {

using data::Epoch;
using data::SampleId;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<uint64_t> positions(const Order& order, Epoch epoch, uint64_t first, uint64_t stride) {
  std::vector<uint64_t> samples;
  for (uint64_t p = first; p < order.size(); p += stride) {
    samples.push_back(data::index_of(order.at(epoch, p)));
  }
  return samples;
}

std::unique_ptr<Order> made(const Options& options) { return std::move(*make_order(options)); }

std::string refused(const Options& options) {
  const auto order = make_order(options);
  return order.ok() ? "" : order.error().message();
}

// Orders must never change: another build may resume a job.
TEST(Order, NeverChanges) {
  const auto first_of = [](Options options) {
    options.seed = 42;
    options.sample_count = 1000;
    options.shard_count = 4;
    options.fraction = 0.5;
    options.group_begins = {0, 100, 250, 1000};
    auto samples = positions(*made(options), Epoch{2}, 0, 1);
    samples.resize(5);
    return samples;
  };
  EXPECT_THAT(first_of({.shuffle = Shuffle::kOff}), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(first_of({.shuffle = Shuffle::kGlobal}), ElementsAre(194, 324, 667, 715, 285));
  EXPECT_THAT(first_of({.shuffle = Shuffle::kLocal}), ElementsAre(153, 412, 600, 756, 216));
  EXPECT_THAT(first_of({.shuffle = Shuffle::kPartial}), ElementsAre(902, 412, 101, 6, 216));
  EXPECT_THAT(first_of({.shuffle = Shuffle::kFile}), ElementsAre(0, 1, 2, 3, 4));
}

TEST(Order, ParsesTheNamesOfShuffles) {
  for (const Shuffle shuffle :
       {Shuffle::kOff, Shuffle::kGlobal, Shuffle::kLocal, Shuffle::kPartial, Shuffle::kFile,
        Shuffle::kWeighted, Shuffle::kMixture, Shuffle::kListed}) {
    EXPECT_EQ(*shuffle_from(shuffle_name(shuffle)), shuffle);
  }
  EXPECT_EQ(shuffle_from("globl").error().message(),
            "unknown shuffle 'globl'; did you mean 'global'?; choose one of off, global, local, "
            "partial, file, weighted, mixture, listed");
}

TEST(Order, RefusesInvalidOptions) {
  EXPECT_THAT(refused({.sample_count = 4, .shard_count = 0}), HasSubstr("among 0 shards"));
  EXPECT_THAT(refused({.sample_count = 4, .shard_count = (1u << 30) + 1}),
              HasSubstr("1073741825 shards; an order can have at most 1073741824"));
  EXPECT_THAT(refused({.sample_count = 4, .fraction = 1.5}), HasSubstr("is 1.5"));
  EXPECT_THAT(refused({.sample_count = 4, .fraction = -0.1}), HasSubstr("is -0.1"));
  EXPECT_THAT(refused({.fraction = std::numeric_limits<double>::quiet_NaN()}), HasSubstr("is nan"));
  EXPECT_THAT(refused({.sample_count = ~uint64_t{0}}), HasSubstr("an order can have at most"));
  EXPECT_THAT(refused({.shuffle = Shuffle{9}}), HasSubstr("unknown shuffle number 9"));
  EXPECT_THAT(refused({.shuffle = Shuffle::kListed, .position_count = (uint64_t{1} << 56) + 1}),
              HasSubstr("is too long"));
}

TEST(Order, RefusesGroupsThatDoNotCoverTheSamples) {
  const auto by_file = [](std::vector<uint64_t> begins) {
    return refused({.shuffle = Shuffle::kFile, .sample_count = 4, .group_begins = begins});
  };
  EXPECT_THAT(by_file({}), HasSubstr("the source has none"));
  EXPECT_THAT(by_file({0, 3}), HasSubstr("the source has 0 to 3"));
  EXPECT_THAT(by_file({1, 4}), HasSubstr("the source has 1 to 4"));
  EXPECT_THAT(by_file({0, 3, 2, 4}),
              HasSubstr("file 1 begins at sample 3, but the file after it begins at sample 2"));
  EXPECT_EQ(by_file({0, 0, 2, 4, 4}), "");
}

TEST(LocalOrder, AShardKeepsAContiguousRunOfSamples) {
  const auto order = made({.shuffle = Shuffle::kLocal, .sample_count = 11, .shard_count = 3});
  for (const uint64_t e : {0, 1, 9}) {
    auto second = positions(*order, Epoch{e}, /*first=*/1, /*stride=*/3);
    std::ranges::sort(second);
    EXPECT_THAT(second, ElementsAre(4, 5, 6, 7)) << e;
    auto third = positions(*order, Epoch{e}, 2, 3);
    std::ranges::sort(third);
    EXPECT_THAT(third, ElementsAre(8, 9, 10)) << e;
  }
}

TEST(LocalOrder, ShardsOfEqualSizeHaveDifferentOrders) {
  const auto order = made({.shuffle = Shuffle::kLocal, .sample_count = 200, .shard_count = 2});
  auto second = positions(*order, Epoch{0}, 1, 2);
  for (uint64_t& sample : second) sample -= 100;
  EXPECT_NE(positions(*order, Epoch{0}, 0, 2), second);
}

TEST(FileOrder, SamplesOfAFileStayTogetherAndInOrder) {
  const auto order = made(
      {.shuffle = Shuffle::kFile, .sample_count = 10, .seed = 1, .group_begins = {0, 3, 3, 7, 10}});
  std::set<std::vector<uint64_t>> orders;
  for (uint64_t e = 0; e < 50; ++e) {
    const auto samples = positions(*order, Epoch{e}, 0, 1);
    orders.insert(samples);
    for (size_t i = 1; i < samples.size(); ++i) {
      const bool begins_a_file = samples[i] == 0 || samples[i] == 3 || samples[i] == 7;
      EXPECT_TRUE(begins_a_file || samples[i] == samples[i - 1] + 1);
    }
  }
  EXPECT_EQ(orders.size(), 6u);  // of the three files that are not empty
}

TEST(PartialOrder, WithFractionZeroIsLocal) {
  Options options{.shuffle = Shuffle::kPartial,
                  .sample_count = 1000,
                  .seed = 3,
                  .shard_count = 7,
                  .fraction = 0};
  const auto partial = made(options);
  options.shuffle = Shuffle::kLocal;
  const auto local = made(options);
  for (uint64_t e = 0; e < 4; ++e) {
    EXPECT_EQ(positions(*partial, Epoch{e}, 0, 1), positions(*local, Epoch{e}, 0, 1));
  }
}

TEST(PartialOrder, IsLocalInTheFirstEpoch) {
  Options options{.shuffle = Shuffle::kPartial,
                  .sample_count = 1000,
                  .seed = 3,
                  .shard_count = 7,
                  .fraction = 0.5};
  const auto partial = made(options);
  options.shuffle = Shuffle::kLocal;
  EXPECT_EQ(positions(*partial, Epoch{0}, 0, 1), positions(*made(options), Epoch{0}, 0, 1));
}

// How many samples from each shard of epoch 0 are in each shard.
std::vector<double> origins(const Order& order, Epoch epoch) {
  const uint32_t shard_count = order.options().shard_count;
  const Shards shards(order.size(), shard_count);
  std::vector<double> counts(shard_count * shard_count);
  for (uint64_t p = 0; p < order.size(); ++p) {
    ++counts[p % shard_count * shard_count + shards.home_of(order.at(epoch, p)).shard];
  }
  return counts;
}

TEST(PartialOrder, WithFractionOneMixesLikeGlobal) {
  constexpr uint32_t kShards = 10;
  constexpr uint64_t kSamples = 20'000;
  const auto order = made({.shuffle = Shuffle::kPartial,
                           .sample_count = kSamples,
                           .seed = 3,
                           .shard_count = kShards,
                           .fraction = 1});
  for (const uint64_t e : {1, 2}) {
    double chi_square = 0;
    for (const double count : origins(*order, Epoch{e})) {
      const double expected = kSamples / (kShards * kShards);
      chi_square += (count - expected) * (count - expected) / expected;
    }
    // 81 degrees of freedom: a thousand random deals in a row stay within these bounds.
    EXPECT_LT(chi_square, 135) << e;
    EXPECT_GT(chi_square, 40) << e;
  }
}

TEST(PartialOrder, KeepsWhatIsNotExchanged) {
  constexpr uint32_t kShards = 4;
  const auto order = made({.shuffle = Shuffle::kPartial,
                           .sample_count = 4000,
                           .seed = 3,
                           .shard_count = kShards,
                           .fraction = 0.1});
  const auto counts = origins(*order, Epoch{1});
  for (uint32_t shard = 0; shard < kShards; ++shard) {
    // Of 1000 samples, 100 are exchanged, and a fourth of those stay in their own shard.
    EXPECT_NEAR(counts[shard * kShards + shard], 925, 20);
  }
}

// Two of them meet half as often as other samples: only if exactly one of the two was swapped.
TEST(PartialOrder, SamplesFromEqualSlotsMeet) {
  constexpr uint32_t kShards = 4;
  const auto order = made({.shuffle = Shuffle::kPartial,
                           .sample_count = 4000,
                           .seed = 3,
                           .shard_count = kShards,
                           .fraction = 1});
  const auto meetings = [&](uint64_t slot, uint64_t other_slot) {
    std::multiset<uint64_t> shards;
    for (uint64_t shard = 0; shard < kShards; ++shard) {
      shards.insert(order->position_of(Epoch{1}, SampleId{shard * 1000 + slot}) % kShards);
    }
    uint64_t count = 0;
    for (uint64_t shard = 0; shard < kShards; ++shard) {
      const SampleId other{shard * 1000 + other_slot};
      count += shards.count(order->position_of(Epoch{1}, other) % kShards);
    }
    return count;
  };
  uint64_t equal = 0;
  uint64_t any = 0;
  for (uint64_t slot = 0; slot < 1000; ++slot) {
    equal += meetings(slot, slot) - kShards;  // without each sample's meeting with itself
    any += meetings(slot, (slot + 500) % 1000);
  }
  EXPECT_NEAR(static_cast<double>(equal), 1000 * 12 / 8.0, 150);
  EXPECT_NEAR(static_cast<double>(any), 1000 * 16 / 4.0, 300);
}

TEST(Shards, SizesDifferByAtMostOne) {
  for (const uint64_t size : {0, 1, 2, 7, 100}) {
    for (const uint32_t count : {1, 3, 7}) {
      const Shards shards(size, count);
      uint64_t sum = 0;
      for (uint32_t shard = 0; shard < count; ++shard) {
        EXPECT_EQ(shards.first_of(shard), sum);
        for (uint64_t i = 0; i < shards.size_of(shard); ++i) {
          const Slot slot{.shard = shard, .index = i};
          EXPECT_EQ(shards.home_of(shards.at_home(slot)), slot);
        }
        EXPECT_LE(shards.size_of(shard) - shards.even_size(), 1u);
        sum += shards.size_of(shard);
      }
      EXPECT_EQ(sum, size);
    }
  }
}

}  // namespace
}  // namespace millrace::loader::order
