// Tests what every order guarantees (order.h).
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "loader/order/order.h"

namespace millrace::loader::order {
namespace {

using data::Epoch;
using data::SampleId;

// Groups of 0 to 6 samples, some of them empty.
std::vector<uint64_t> uneven_groups(uint64_t sample_count) {
  std::vector<uint64_t> begins = {0};
  for (uint64_t i = 0; begins.back() < sample_count; ++i) {
    begins.push_back(std::min(sample_count, begins.back() + i * 5 % 7));
  }
  begins.push_back(sample_count);
  return begins;
}

class OrderContract : public testing::TestWithParam<Shuffle> {
 protected:
  static std::unique_ptr<Order> order(uint64_t sample_count, uint32_t shard_count = 1,
                                      uint64_t seed = 0) {
    Options options{.shuffle = GetParam(),
                    .sample_count = sample_count,
                    .seed = seed,
                    .shard_count = shard_count,
                    .fraction = 0.3};
    if (GetParam() == Shuffle::kFile) options.group_begins = uneven_groups(sample_count);
    return std::move(*make_order(options));
  }

  static std::vector<SampleId> all_of(const Order& order, Epoch epoch) {
    std::vector<SampleId> samples;
    for (uint64_t p = 0; p < order.size(); ++p) samples.push_back(order.at(epoch, p));
    return samples;
  }
};

TEST_P(OrderContract, AnEpochHasEverySampleOnceAndAnInverse) {
  for (const uint64_t size : {0, 1, 2, 7, 100, 1000}) {
    for (const uint32_t shards : {1, 3, 7}) {
      const auto asked = order(size, shards, /*seed=*/size + shards);
      ASSERT_EQ(asked->size(), size);
      for (uint64_t e = 0; e < 4; ++e) {
        std::vector<bool> seen(size);
        for (uint64_t p = 0; p < size; ++p) {
          const SampleId sample = asked->at(Epoch{e}, p);
          ASSERT_LT(data::index_of(sample), size);
          ASSERT_FALSE(seen[data::index_of(sample)]) << size << " " << shards << " " << e;
          seen[data::index_of(sample)] = true;
          ASSERT_EQ(asked->position_of(Epoch{e}, sample), p) << size << " " << shards << " " << e;
        }
      }
    }
  }
}

TEST_P(OrderContract, EqualOptionsGiveEqualOrdersAfterAnyQueries) {
  const auto first = order(1000, 7, 5);
  const auto second = order(1000, 7, 5);
  const auto later = all_of(*first, Epoch{3});
  for (uint64_t e = 0; e < 3; ++e) all_of(*second, Epoch{e});
  EXPECT_EQ(all_of(*second, Epoch{3}), later);
  EXPECT_EQ(all_of(*first, Epoch{0}), all_of(*second, Epoch{0}));
}

TEST_P(OrderContract, FillEqualsAtForAnyStrideAndEpoch) {
  const auto asked = order(1000, 7, 5);
  for (const uint64_t e : {0, 1, 2, 3, 2, 0, 5}) {
    for (const uint64_t stride : {1, 2, 3, 7, 14, 21, 100}) {
      for (const uint64_t first : {0, 3, 6}) {
        std::vector<SampleId> out((1000 - first + stride - 1) / stride);
        asked->fill(Epoch{e}, first, stride, out);
        for (uint64_t i = 0; i < out.size(); ++i) {
          ASSERT_EQ(out[i], asked->at(Epoch{e}, first + i * stride))
              << e << " " << stride << " " << first << " " << i;
        }
      }
    }
  }
  asked->fill(Epoch{0}, 0, 1, {});
}

TEST_P(OrderContract, OtherEpochsAndSeedsGiveOtherOrdersUnlessOff) {
  const bool is_off = GetParam() == Shuffle::kOff;
  const auto first = all_of(*order(1000, 3, 5), Epoch{0});
  EXPECT_EQ(all_of(*order(1000, 3, 5), Epoch{1}) == first, is_off);
  EXPECT_EQ(all_of(*order(1000, 3, 6), Epoch{0}) == first, is_off);
  // If the key were seed + epoch, these two would be equal.
  EXPECT_EQ(all_of(*order(1000, 3, 6), Epoch{0}) == all_of(*order(1000, 3, 5), Epoch{1}), is_off);
}

TEST_P(OrderContract, ReturnsItsOptions) {
  const auto asked = order(100, 3, 5);
  EXPECT_EQ(asked->options().shuffle, GetParam());
  EXPECT_EQ(asked->options().seed, 5u);
}

INSTANTIATE_TEST_SUITE_P(AllOrders, OrderContract,
                         testing::Values(Shuffle::kOff, Shuffle::kGlobal, Shuffle::kLocal,
                                         Shuffle::kPartial, Shuffle::kFile),
                         [](const auto& tested) {
                           return std::string(shuffle_name(tested.param));
                         });

}  // namespace
}  // namespace millrace::loader::order
