#include "base/numbers/permutation.h"

#include <gmock/gmock.h>

#include <cmath>
#include <map>
#include <vector>

#include "base/numbers/counter_random.h"

namespace millrace {
namespace {

using testing::ElementsAre;

PermutationKey key_of(uint64_t number) {
  const CounterRandom random(7, number);
  return {random.at(0), random.at(1)};
}

std::vector<uint64_t> all_of(const KeyedPermutation& permutation) {
  std::vector<uint64_t> all(permutation.size());
  permutation.fill(0, 1, std::span(all));
  return all;
}

// How far chi-square is from its expected value, in standard deviations.
double deviations(double chi_square, double freedom) {
  return (chi_square - freedom) / std::sqrt(2 * freedom);
}

double chi_square_of(const std::vector<double>& counts, double expected) {
  double sum = 0;
  for (const double count : counts) sum += (count - expected) * (count - expected) / expected;
  return sum;
}

// The numbers must never change: a job started with one build may be continued with another.
TEST(KeyedPermutation, GivesTheSameNumbersAsEver) {
  const PermutationKey key{.low = 11, .high = 22};
  const auto first_of = [&](uint64_t size) {
    std::vector<uint64_t> out(std::min<uint64_t>(size, 4));
    KeyedPermutation(size, key).fill(0, 1, std::span(out));
    return out;
  };
  EXPECT_THAT(first_of(1), ElementsAre(0));
  EXPECT_THAT(first_of(2), ElementsAre(0, 1));
  EXPECT_THAT(first_of(3), ElementsAre(0, 1, 2));
  EXPECT_THAT(first_of(17), ElementsAre(8, 9, 16, 11));
  EXPECT_THAT(first_of(1000), ElementsAre(175, 174, 957, 514));
  EXPECT_THAT(first_of((uint64_t{1} << 32) + 5),
              ElementsAre(2630397083, 1659826576, 3627759828, 4262310793));
  EXPECT_THAT(first_of(1'000'000'000'000),
              ElementsAre(470019355937, 479018539196, 370737706522, 614491592293));
  EXPECT_THAT(first_of(KeyedPermutation::kSizeMax),
              ElementsAre(71520543197950850, 1361114768564046850, 2449427946819591071,
                          6330461697146696126));
}

TEST(KeyedPermutation, HasEveryNumberOnceAndAnInverse) {
  for (uint64_t size = 0; size <= 300; ++size) {
    const KeyedPermutation permutation(size, key_of(size));
    std::vector<bool> seen(size);
    for (uint64_t i = 0; i < size; ++i) {
      const uint64_t value = permutation.at(i);
      ASSERT_LT(value, size);
      ASSERT_FALSE(seen[value]) << value << " of " << size;
      seen[value] = true;
      ASSERT_EQ(permutation.inverse(value), i) << size;
    }
  }
}

TEST(KeyedPermutation, HasAnInverseAtEverySize) {
  CounterRandom random(3, 0);
  for (int bits = 5; bits < 64; ++bits) {
    for (int offset = -2; offset <= 2; ++offset) {
      const uint64_t size = (uint64_t{1} << bits) + static_cast<uint64_t>(offset);
      if (size > KeyedPermutation::kSizeMax) continue;
      const KeyedPermutation permutation(size, key_of(size));
      for (int i = 0; i < 50; ++i) {
        const uint64_t index = i == 0 ? size - 1 : random.below(size);
        const uint64_t value = permutation.at(index);
        ASSERT_LT(value, size);
        ASSERT_EQ(permutation.inverse(value), index) << size;
      }
    }
  }
}

TEST(KeyedPermutation, WithKeyGivesTheSameNumbersInAnotherOrder) {
  const KeyedPermutation first(1000, key_of(1));
  EXPECT_EQ(all_of(first.with_key(key_of(2))), all_of(KeyedPermutation(1000, key_of(2))));
  EXPECT_NE(all_of(first.with_key(key_of(2))), all_of(first));
}

TEST(KeyedPermutation, FillsWithAStride) {
  const KeyedPermutation permutation(1000, key_of(1));
  std::vector<uint64_t> out(3);
  permutation.fill(5, 400, std::span(out).first(2));
  EXPECT_THAT(out, ElementsAre(permutation.at(5), permutation.at(405), 0));
}

TEST(KeyedPermutation, GivesEveryOrderOfAFewNumbersEquallyOften) {
  for (const uint64_t size : {3, 4, 5}) {
    double orders = 1;
    for (uint64_t i = 2; i <= size; ++i) orders *= static_cast<double>(i);
    constexpr double kExpected = 100;
    std::map<std::vector<uint64_t>, double> counts;
    for (uint64_t i = 0; i < static_cast<uint64_t>(kExpected * orders); ++i) {
      ++counts[all_of(KeyedPermutation(size, key_of(i)))];
    }
    ASSERT_EQ(static_cast<double>(counts.size()), orders);
    std::vector<double> found;
    for (const auto& [order, count] : counts) found.push_back(count);
    EXPECT_LT(deviations(chi_square_of(found, kExpected), orders - 1), 4) << size;
  }
}

TEST(KeyedPermutation, SendsEveryPositionOfASmallSizeEverywhereEquallyOften) {
  for (const uint64_t size : {11, 17, 25, 40}) {
    constexpr double kExpected = 60;
    std::vector<double> counts(size * size);
    for (uint64_t i = 0; i < size * static_cast<uint64_t>(kExpected); ++i) {
      const KeyedPermutation permutation(size, key_of(i));
      for (uint64_t place = 0; place < size; ++place)
        ++counts[place * size + permutation.at(place)];
    }
    const auto freedom = static_cast<double>((size - 1) * (size - 1));
    EXPECT_LT(std::abs(deviations(chi_square_of(counts, kExpected), freedom)), 4.5) << size;
  }
}

TEST(KeyedPermutation, MovesNumbersAnyDistance) {
  constexpr uint64_t kSize = 200'000;
  constexpr uint64_t kBins = 100;
  const KeyedPermutation permutation(kSize, key_of(1));
  std::vector<double> displacements(kBins);
  std::vector<double> steps(kBins);  // from the number at a position to the next number
  uint64_t before = permutation.at(kSize - 1);
  for (uint64_t i = 0; i < kSize; ++i) {
    const uint64_t value = permutation.at(i);
    ++displacements[(value + kSize - i) % kSize * kBins / kSize];
    ++steps[(value + kSize - before) % kSize * kBins / kSize];
    before = value;
  }
  EXPECT_LT(std::abs(deviations(chi_square_of(displacements, kSize / kBins), kBins - 1)), 4.5);
  EXPECT_LT(std::abs(deviations(chi_square_of(steps, kSize / kBins), kBins - 1)), 4.5);
}

TEST(KeyedPermutation, OrdersOfDifferentKeysHaveNothingInCommon) {
  constexpr uint64_t kSize = 50'000;
  // Neighbours in both words of the key, and keys drawn by philox.
  const std::vector<std::pair<PermutationKey, PermutationKey>> pairs = {
      {{0, 0}, {1, 0}}, {{0, 0}, {0, 1}}, {{5, 6}, {6, 5}}, {key_of(1), key_of(2)}};
  for (const auto& [first, second] : pairs) {
    const auto a = all_of(KeyedPermutation(kSize, first));
    const auto b = all_of(KeyedPermutation(kSize, second));
    double covariance = 0;
    uint64_t equal = 0;
    const double mean = (kSize - 1) / 2.0;
    for (uint64_t i = 0; i < kSize; ++i) {
      covariance += (static_cast<double>(a[i]) - mean) * (static_cast<double>(b[i]) - mean);
      equal += a[i] == b[i];
    }
    const double variance = static_cast<double>(kSize) * kSize / 12;
    EXPECT_LT(std::abs(covariance / (variance * kSize)), 4.5 / std::sqrt(kSize));
    EXPECT_LT(equal, 9u);  // one is expected; nine or more have a chance of one in a million
  }
}

}  // namespace
}  // namespace millrace
