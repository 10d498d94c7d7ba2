#include "loader/order/partial_moves.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

namespace millrace::loader::order {
namespace {

using data::Epoch;
using data::SampleId;

Options partial(uint64_t sample_count, uint32_t shard_count, double fraction) {
  return {.shuffle = Shuffle::kPartial,
          .sample_count = sample_count,
          .seed = 11,
          .shard_count = shard_count,
          .fraction = fraction};
}

std::vector<uint64_t> slots_dealt_after(const PartialMoves& moves, Epoch epoch) {
  std::vector<uint64_t> slots;
  for (uint64_t turn = 0; turn < moves.turn_count(); ++turn) {
    if (const auto slot = moves.slot_of_turn(epoch, turn)) slots.push_back(*slot);
  }
  return slots;
}

TEST(PartialMoves, HaveAnInverseInAnyEpoch) {
  for (const double fraction : {0.03, 0.4, 1.0}) {
    const PartialMoves moves(partial(1003, 7, fraction));
    for (const uint64_t e : {uint64_t{0}, uint64_t{1}, uint64_t{2}, uint64_t{50}, ~uint64_t{0}}) {
      std::set<std::pair<uint32_t, uint64_t>> slots;
      for (uint64_t sample = 0; sample < 1003; ++sample) {
        const Slot slot = moves.slot_of(Epoch{e}, SampleId{sample});
        ASSERT_LT(slot.index, moves.shards().size_of(slot.shard));
        ASSERT_TRUE(slots.emplace(slot.shard, slot.index).second);
        ASSERT_EQ(moves.sample_in(Epoch{e}, slot), SampleId{sample}) << e;
      }
    }
  }
}

TEST(PartialMoves, HaveAnInverseInHugeShards) {
  const PartialMoves moves(partial(uint64_t{1} << 55, 3, 0.1));
  for (uint64_t i = 0; i < 1000; ++i) {
    const SampleId sample{i * 36'028'797'018'963};
    ASSERT_EQ(moves.sample_in(Epoch{95}, moves.slot_of(Epoch{95}, sample)), sample);
  }
  std::set<uint64_t> slots;
  for (uint64_t turn = 0; turn < 1000; ++turn) slots.insert(*moves.slot_of_turn(Epoch{95}, turn));
  EXPECT_EQ(slots.size(), 1000u);
}

TEST(PartialMoves, GoHomeMovesManySlotsLikeOneAtATime) {
  for (const uint32_t shard_count : {1, 7, 20}) {
    for (const double fraction : {0.0, 0.03, 0.4, 1.0}) {
      const PartialMoves moves(partial(3003, shard_count, fraction));
      for (const uint64_t e : {0, 1, 2, 3, 6, 7, 50}) {
        std::vector<Slot> slots;
        for (uint64_t i = 0; i < 3003; ++i) {
          const auto shard = static_cast<uint32_t>(i % shard_count);
          slots.push_back({.shard = shard, .index = i / shard_count});
        }
        const std::vector<Slot> asked = slots;
        moves.go_home(Epoch{e}, slots);
        for (size_t i = 0; i < slots.size(); ++i) {
          ASSERT_EQ(moves.shards().at_home(slots[i]), moves.sample_in(Epoch{e}, asked[i])) << e;
        }
      }
    }
  }
}

TEST(PartialMoves, ChangeOnlySlotsThatHaveATurn) {
  const PartialMoves moves(partial(1003, 7, 0.3));
  for (uint64_t e = 0; e < 12; ++e) {
    const auto dealt = slots_dealt_after(moves, Epoch{e});
    const std::set<uint64_t> may_change(dealt.begin(), dealt.end());
    for (uint32_t shard = 0; shard < 7; ++shard) {
      for (uint64_t index = 0; index < moves.shards().size_of(shard); ++index) {
        const Slot slot{.shard = shard, .index = index};
        if (may_change.contains(index)) continue;
        ASSERT_EQ(moves.sample_in(Epoch{e}, slot), moves.sample_in(Epoch{e + 1}, slot));
      }
    }
  }
}

TEST(PartialMoves, GiveEverySlotEquallyManyTurns) {
  for (const double fraction : {0.1, 0.3, 0.7, 1.0}) {
    for (const uint64_t sample_count : {4000, 4004}) {  // shards of even and odd size
      const PartialMoves moves(partial(sample_count, 4, fraction));
      std::map<uint64_t, int> turns;
      for (uint64_t e = 0; e < 100; ++e) {
        const auto dealt = slots_dealt_after(moves, Epoch{e});
        EXPECT_EQ(std::set<uint64_t>(dealt.begin(), dealt.end()).size(), dealt.size());
        for (const uint64_t slot : dealt) ++turns[slot];
      }
      EXPECT_EQ(turns.size(), sample_count / 4);
      for (const auto& [slot, count] : turns) EXPECT_NEAR(count, 100 * fraction, 1.1) << slot;
    }
  }
}

TEST(PartialMoves, DoNotExceedTheFractionUnlessItIsOneSlot) {
  const auto turns = [](uint64_t slots, double fraction) {
    return slots_dealt_after(PartialMoves(partial(2 * slots, 2, fraction)), Epoch{3}).size();
  };
  EXPECT_EQ(turns(100, 0.5), 50u);
  EXPECT_EQ(turns(100, 0.51), 50u);
  EXPECT_EQ(turns(100, 1), 100u);
  EXPECT_EQ(turns(99, 1), 99u);
  EXPECT_EQ(turns(9, 0.1), 0u);
  EXPECT_EQ(turns(10, 0.1), 2u);
  EXPECT_EQ(turns(1, 1), 1u);
  EXPECT_EQ(turns(100, 0), 0u);
}

TEST(PartialMoves, OfAnEpochAreSpreadEvenlyOverAShard) {
  const PartialMoves moves(partial(80'000, 4, 0.1));
  for (uint64_t e = 0; e < 10; ++e) {
    auto dealt = slots_dealt_after(moves, Epoch{e});
    std::ranges::sort(dealt);
    for (size_t i = 2; i < dealt.size(); i += 2) ASSERT_LE(dealt[i] - dealt[i - 2], 60u);
  }
}

TEST(PartialMoves, StartElsewhereWithAnotherSeed) {
  Options other = partial(8000, 4, 0.1);
  other.seed = 12;
  EXPECT_NE(slots_dealt_after(PartialMoves(partial(8000, 4, 0.1)), Epoch{0}),
            slots_dealt_after(PartialMoves(other), Epoch{0}));
}

}  // namespace
}  // namespace millrace::loader::order
