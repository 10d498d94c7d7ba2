#include "loader/order/kept_permutations.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "loader/order/order_key.h"

namespace millrace::loader::order {
namespace {

constexpr uint64_t kSize = 1000;

class Named {
 public:
  uint64_t derived_count() const { return derived_count_; }

  // The number at a place, looked up through the cache.
  uint64_t at(const KeptPermutations& kept, uint64_t epoch, uint64_t which, uint64_t place) {
    return kept
        .find(numbers_, epoch, which,
              [&] {
                ++derived_count_;
                return made(epoch, which);
              })
        .at(place);
  }

  KeyedPermutation made(uint64_t epoch, uint64_t which) const {
    return numbers_.with_key(order_key(
        {.seed = 1, .epoch = data::Epoch{epoch}, .purpose = Purpose::kLocal, .which = which}));
  }

 private:
  KeyedPermutation numbers_{kSize, {}};
  uint64_t derived_count_ = 0;
};

TEST(KeptPermutations, DeriveAnOrderOnce) {
  const KeptPermutations kept(8);
  Named named;
  for (int round = 0; round < 3; ++round) {
    for (uint64_t epoch = 90; epoch < 106; ++epoch) {
      for (uint64_t which = 0; which < 8; ++which) {
        ASSERT_EQ(named.at(kept, epoch, which, 7), named.made(epoch, which).at(7));
      }
    }
  }
  EXPECT_EQ(named.derived_count(), 16u * 8);
}

TEST(KeptPermutations, DistinguishNamesThatShareAPlace) {
  const KeptPermutations kept(1);
  Named named;
  for (const uint64_t epoch : {0, 16, 32, 0, 0}) {
    EXPECT_EQ(named.at(kept, epoch, 0, 7), named.made(epoch, 0).at(7)) << epoch;
  }
  EXPECT_EQ(named.derived_count(), 4u);
}

TEST(KeptPermutations, AcceptMoreNamesThanTheyHold) {
  const KeptPermutations kept(5000);
  Named named;
  for (uint64_t which = 0; which < 5000; ++which) {
    ASSERT_EQ(named.at(kept, 3, which, 7), named.made(3, which).at(7));
  }
}

TEST(KeptPermutations, ServeThreadsThatReplaceEachOthersEntries) {
  const KeptPermutations kept(1);
  std::vector<uint64_t> wrong_counts(4);
  {
    std::vector<std::jthread> threads;
    for (uint64_t& wrong_count : wrong_counts) {
      threads.emplace_back([&] {
        Named named;
        const KeyedPermutation orders[] = {named.made(0, 0), named.made(16, 0), named.made(32, 0)};
        for (uint64_t i = 0; i < 20'000; ++i) {
          const uint64_t which = i / 3 % 3;  // all share one place
          const uint64_t found = named.at(kept, which * 16, 0, i % kSize);
          wrong_count += found != orders[which].at(i % kSize) ? 1 : 0;
        }
      });
    }
  }
  for (const uint64_t count : wrong_counts) EXPECT_EQ(count, 0u);
}

}  // namespace
}  // namespace millrace::loader::order
