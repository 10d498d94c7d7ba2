#include "base/permutation_lanes.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/counter_random.h"
#include "base/permutation.h"

namespace millrace {
namespace {

struct NamedLanes {
  std::string name;
  const PermutationLanes* lanes = nullptr;  // null: not on this machine
};

std::vector<NamedLanes> wide_lanes() {
#ifdef __x86_64__
  const bool has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq");
  return {{"avx2", __builtin_cpu_supports("avx2") ? avx2_permutation_lanes() : nullptr},
          {"avx512", has_avx512 ? avx512_permutation_lanes() : nullptr}};
#else
  return {{"avx2", nullptr}, {"avx512", nullptr}};
#endif
}

class WidePermutationLanes : public testing::TestWithParam<NamedLanes> {
 protected:
  void SetUp() override {
    if (GetParam().lanes == nullptr) GTEST_SKIP() << "this processor has no " << GetParam().name;
  }
  const PermutationLanes& wide() const { return *GetParam().lanes; }
  const PermutationLanes& plain() const { return *plain_permutation_lanes(); }
};

std::vector<uint64_t> random_numbers(uint64_t stream, size_t count) {
  CounterRandom random(5, stream);
  std::vector<uint64_t> numbers(count);
  for (uint64_t& number : numbers) number = random.next();
  return numbers;
}

// Sizes with the most places past them, with none, and the largest.
const std::vector<uint64_t> kSizes = {17,
                                      25,
                                      26,
                                      1000,
                                      125'000,
                                      65'536 * 65'536ull,
                                      65'536 * 65'536ull + 1,
                                      1'000'000'000'000,
                                      PermutationLanes::kSizeMax};

TEST_P(WidePermutationLanes, SendNumbersAsThePlainOnesDo) {
  for (const uint64_t size : kSizes) {
    const KeyedPermutation permutation(size, {.low = size, .high = 7});
    // None, fewer than are side by side, as many, and some more.
    for (const size_t count : {0, 1, 8, 15, 16, 17, 100}) {
      std::vector<uint64_t> numbers = random_numbers(size, count);
      for (uint64_t& number : numbers) number %= size;
      if (!numbers.empty()) numbers.back() = size - 1;
      std::vector<uint64_t> expected = numbers;
      const uint64_t* const keys = permutation.round_keys().data();
      plain().at_each(permutation.network(), keys, expected.data(), count);
      std::vector<uint64_t> sent = numbers;
      wide().at_each(permutation.network(), keys, sent.data(), count);
      EXPECT_EQ(sent, expected) << size << " " << count;
    }
  }
}

TEST_P(WidePermutationLanes, DeriveTheSameBlocks) {
  for (const size_t count : {0, 1, 7, 16, 33}) {
    std::vector<uint64_t> low = random_numbers(1, count);
    std::vector<uint64_t> high = random_numbers(2, count);
    std::vector<uint64_t> plain_low = low;
    std::vector<uint64_t> plain_high = high;
    wide().philox_each(0xfedcba9876543210, low.data(), high.data(), count);
    plain().philox_each(0xfedcba9876543210, plain_low.data(), plain_high.data(), count);
    ASSERT_EQ(low, plain_low) << count;
    ASSERT_EQ(high, plain_high) << count;
  }
}

INSTANTIATE_TEST_SUITE_P(Instructions, WidePermutationLanes, testing::ValuesIn(wide_lanes()),
                         [](const auto& tested) { return tested.param.name; });

TEST(PlainPermutationLanes, GiveTheBlockOfPhilox) {
  uint64_t first = 0x85a308d3243f6a88;  // as the published test of the function has it
  uint64_t second = 0x0370734413198a2e;
  plain_permutation_lanes()->philox_each(0x299f31d0a4093822, &first, &second, 1);
  EXPECT_EQ(first, 0x94fdccebd16cfe09);
  EXPECT_EQ(second, 0x24126ea15001e420);
}

}  // namespace
}  // namespace millrace
