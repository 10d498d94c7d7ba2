#include "loader/tiers/speeds.h"

#include <gtest/gtest.h>

#include <optional>

namespace millrace::loader::tiers {
namespace {

using namespace std::chrono_literals;

constexpr uint64_t kReadsToJudge = Speeds::kGroupsToJudge * Speeds::kGroupReads;
constexpr uint64_t kReadsKept = Speeds::kGroups * Speeds::kGroupReads;

// Samples of 1,000 bytes, from a source that takes 1 ms for each.
class SpeedsTest : public testing::Test {
 protected:
  SpeedsTest() { read(Tier::kSource, 1ms, 100); }

  void read(Tier tier, std::chrono::nanoseconds took, uint64_t count = 1) {
    for (uint64_t i = 0; i < count; ++i) speeds_->add(tier, 1'000, took);
  }
  void refuse(std::chrono::nanoseconds took, uint64_t count = 1) {
    for (uint64_t i = 0; i < count; ++i) speeds_->add(Tier::kPeer, 0, took);
  }
  bool prefers(Tier tier) { return speeds_->prefers(tier, Tier::kSource); }

  // Makes `choices` choices and reads, where a read of `tier` takes `took`; returns how often
  // `tier` was chosen.
  uint64_t choose(Tier tier, std::chrono::nanoseconds took, uint64_t choices) {
    uint64_t chosen = 0;
    for (uint64_t i = 0; i < choices; ++i) {
      const bool is_chosen = prefers(tier);
      chosen += is_chosen ? 1 : 0;
      read(is_chosen ? tier : Tier::kSource, is_chosen ? took : 1ms);
    }
    return chosen;
  }

  std::optional<Speeds> speeds_{std::in_place};
};

TEST_F(SpeedsTest, OneStalledReadDoesNotMakeATierSlow) {
  for (const uint64_t before : {0, 1, 7, 12, 64}) {
    speeds_.emplace();
    read(Tier::kSource, 1ms, 100);
    read(Tier::kDisk, 100us, before);
    read(Tier::kDisk, 2s);
    for (uint64_t i = 0; i < 100; ++i) {
      ASSERT_TRUE(prefers(Tier::kDisk)) << before << " reads, the stall, and " << i << " more";
      read(Tier::kDisk, 100us);
    }
    EXPECT_NEAR(speeds_->bytes_per_second(Tier::kDisk), 1e7, 1);
  }
}

TEST_F(SpeedsTest, AStallOfTheSourceDoesNotMakeASlowerTierFast) {
  read(Tier::kDisk, 2ms, 100);
  const uint64_t before = choose(Tier::kDisk, 2ms, 640);
  read(Tier::kSource, 2s);
  EXPECT_EQ(choose(Tier::kDisk, 2ms, 640), before);
}

TEST_F(SpeedsTest, OneRefusedFirstRequestSaysLittle) {
  refuse(100us);
  EXPECT_EQ(choose(Tier::kPeer, 100us, 100), 100u);
}

TEST_F(SpeedsTest, ATierThatAlwaysRefusesIsAbandoned) {
  refuse(10us, kReadsToJudge - 1);
  EXPECT_TRUE(prefers(Tier::kPeer));
  refuse(10us);
  EXPECT_FALSE(prefers(Tier::kPeer));
}

TEST_F(SpeedsTest, RefusalsCountByTheTimeTheyTake) {
  for (uint64_t i = 0; i < kReadsKept / 2; ++i) {
    read(Tier::kPeer, 100us);
    refuse(100us);
  }
  EXPECT_NEAR(speeds_->bytes_per_second(Tier::kPeer), 5e6, 1);
  EXPECT_TRUE(prefers(Tier::kPeer));
  for (uint64_t i = 0; i < kReadsKept / 2; ++i) {
    read(Tier::kPeer, 800us);
    refuse(800us);
  }
  EXPECT_FALSE(prefers(Tier::kPeer));
}

TEST_F(SpeedsTest, ASlowerTierIsAbandonedAfterAFewReadsAndRetriedNowAndThen) {
  EXPECT_EQ(choose(Tier::kDisk, 2ms, kReadsToJudge), kReadsToJudge);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(choose(Tier::kDisk, 2ms, Speeds::kTrialEvery - 1), 0u);
    EXPECT_EQ(choose(Tier::kDisk, 2ms, 1), 1u);
  }
}

TEST_F(SpeedsTest, ATierThatBecomesSlowIsAbandoned) {
  EXPECT_EQ(choose(Tier::kDisk, 100us, 1'000), 1'000u);
  EXPECT_LE(choose(Tier::kDisk, 10ms, Speeds::kTrialEvery), kReadsKept);
}

TEST_F(SpeedsTest, ATierThatBecomesFastIsUsedAfterTheNextTrial) {
  choose(Tier::kDisk, 10ms, 1'000);
  choose(Tier::kDisk, 100us, Speeds::kTrialEvery);
  EXPECT_EQ(choose(Tier::kDisk, 100us, 100), 100u);
  EXPECT_NEAR(speeds_->bytes_per_second(Tier::kDisk), 1e7, 1);
}

TEST_F(SpeedsTest, NoTierIsJudgedBeforeTheSourceIsKnown) {
  speeds_.emplace();
  read(Tier::kDisk, 10ms, 100);
  read(Tier::kSource, 1us, kReadsToJudge - 1);
  EXPECT_TRUE(prefers(Tier::kDisk));
  read(Tier::kSource, 1us);
  EXPECT_FALSE(prefers(Tier::kDisk));
}

TEST_F(SpeedsTest, SamplesOfSeveralSizesCountByTheirBytes) {
  for (uint64_t i = 0; i < 100; ++i) {  // 1 GB/s and 100 us
    const uint64_t size_bytes = i % 4 == 0 ? 10'000'000 : 1'000;
    speeds_->add(Tier::kDisk, size_bytes, 100us + std::chrono::nanoseconds(size_bytes));
  }
  EXPECT_NEAR(speeds_->bytes_per_second(Tier::kDisk), 10'003'000 / 10.403e-3, 1e3);
}

TEST(Speeds, SpeedIsKnownFromTheFirstRead) {
  Speeds speeds;
  EXPECT_EQ(speeds.bytes_per_second(Tier::kMemory), 0);
  speeds.add(Tier::kMemory, 1'000, 1ms);
  EXPECT_NEAR(speeds.bytes_per_second(Tier::kMemory), 1e6, 1);
}

TEST(Speeds, PrefersTheNearerOfTwoEquallyFastTiers) {
  Speeds speeds;
  for (int i = 0; i < 100; ++i) {
    speeds.add(Tier::kDisk, 1'000, 0ns);  // as if the clock stood still
    speeds.add(Tier::kSource, 1'000, 0ns);
    ASSERT_TRUE(speeds.prefers(Tier::kDisk, Tier::kSource));
  }
}

}  // namespace
}  // namespace millrace::loader::tiers
