#include "loader/order/partial_map.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace millrace::loader {
namespace {

using data::Epoch;

OrderOptions partial(uint64_t sample_count, uint32_t shard_count, double fraction) {
  return {.shuffle = Shuffle::kPartial,
          .sample_count = sample_count,
          .seed = 3,
          .shard_count = shard_count,
          .fraction = fraction};
}

// The first slot of which the map does not say what a walk says; "": none.
std::string wrong_slot(const PartialMap* map, const PartialMoves& moves, uint32_t shard,
                       Epoch epoch) {
  if (map == nullptr) return "there is no map";
  for (uint64_t slot = 0; slot < moves.shards().size_of(shard); ++slot) {
    if (map->sample_in(slot) != moves.sample_in(epoch, {.shard = shard, .index = slot})) {
      return fmt::format("slot {} in epoch {}", slot, data::number_of(epoch));
    }
  }
  return "";
}

TEST(PartialMap, SaysWhatTheWalksSayWhereItIsMadeAndWhereItHasAdvanced) {
  for (const double fraction : {0.0, 0.03, 0.3, 1.0}) {
    const PartialMoves moves(partial(20'003, 7, fraction));
    PartialMap map(moves, 2, Epoch{0});
    for (uint64_t e = 0; e < 12; ++e, map.advance(moves)) {
      EXPECT_EQ(map.epoch(), Epoch{e});
      ASSERT_EQ(wrong_slot(&map, moves, 2, Epoch{e}), "") << fraction;
      const PartialMap fresh(moves, 2, Epoch{e});
      ASSERT_EQ(wrong_slot(&fresh, moves, 2, Epoch{e}), "") << fraction;
    }
  }
}

TEST(WholeMap, SaysOfAllShardsWhatTheWalksSay) {
  // As many shards as a word holds the order of, more, and one; some with a slot more than others.
  for (const uint32_t shard_count : {1, 7, 16, 20}) {
    for (const double fraction : {0.0, 0.03, 0.3, 1.0}) {
      const PartialMoves moves(partial(5003, shard_count, fraction));
      WholeMap whole(moves);
      for (uint64_t e = 0; e < 8; ++e, whole.advance(moves)) {
        ASSERT_EQ(whole.epoch(), Epoch{e});
        for (uint32_t shard = 0; shard < shard_count; ++shard) {
          const PartialMap map(moves, shard, whole);
          ASSERT_EQ(map.epoch(), Epoch{e});
          ASSERT_EQ(wrong_slot(&map, moves, shard, Epoch{e}), "") << shard_count << fraction;
        }
      }
    }
  }
}

TEST(WholeMap, IsForFewShardsOrLateEpochsAndNotForABillionSamples) {
  const auto is_for = [](uint64_t sample_count, uint32_t shard_count, uint64_t epoch) {
    const PartialMoves moves(partial(sample_count, shard_count, 0.1));
    return WholeMap::is_worth_while(moves, Epoch{epoch});
  };
  EXPECT_TRUE(is_for(WholeMap::kSampleCountMax, 16, 0));
  EXPECT_FALSE(is_for(WholeMap::kSampleCountMax + 1, 16, 0));
  EXPECT_FALSE(is_for(100'000, 100, 499));
  EXPECT_TRUE(is_for(100'000, 100, 500));  // the fiftieth cycle of ten epochs
}

TEST(PartialMaps, OfManyEpochsInARowAreRightWhereverTheyBegin) {
  const PartialMoves moves(partial(1003, 7, 0.3));
  for (const uint64_t first : {0, 1, 40}) {
    PartialMaps maps(moves);
    for (uint64_t e = first; e < first + 30; ++e) {
      ASSERT_EQ(wrong_slot(maps.find_or_make(2, Epoch{e}).get(), moves, 2, Epoch{e}), "") << e;
    }
  }
}

TEST(PartialMaps, AreRightInAnyOrderOfAsking) {
  const PartialMoves moves(partial(1003, 7, 0.3));
  PartialMaps maps(moves);
  for (const uint64_t e : {0, 1, 2, 3, 2, 4, 7, 4, 8, 30, 31, 0, 32, 31, 33, 90}) {
    ASSERT_EQ(wrong_slot(maps.find_or_make(2, Epoch{e}).get(), moves, 2, Epoch{e}), "");
  }
}

TEST(PartialMaps, OfTwoEpochsInTurnsAreMadeOnce) {
  const PartialMoves moves(partial(1003, 7, 0.3));
  PartialMaps maps(moves);
  const auto five = maps.find_or_make(2, Epoch{5});
  const auto six = maps.find_or_make(2, Epoch{6});
  EXPECT_EQ(maps.find_or_make(2, Epoch{5}), five);
  EXPECT_EQ(maps.find_or_make(2, Epoch{6}), six);
  EXPECT_NE(maps.find_or_make(2, Epoch{7}), five);
  EXPECT_EQ(maps.find_or_make(2, Epoch{6}), six);
  EXPECT_NE(maps.find_or_make(2, Epoch{5}), five) << "more than two were kept";
}

TEST(PartialMaps, AreOfTheFirstShardThatIsAskedFor) {
  const PartialMoves moves(partial(1003, 7, 0.3));
  PartialMaps maps(moves);
  const auto own = maps.find_or_make(2, Epoch{5});
  EXPECT_EQ(maps.find_or_make(3, Epoch{5}), nullptr);
  EXPECT_EQ(maps.find_or_make(2, Epoch{5}), own);
}

TEST(PartialMaps, OfAHugeShardAreNotMade) {
  const uint64_t slots = PartialMap::kSlotCountMax;
  EXPECT_NE(PartialMaps(PartialMoves(partial(2 * slots, 2, 0))).find_or_make(0, Epoch{0}), nullptr);
  EXPECT_EQ(PartialMaps(PartialMoves(partial(2 * slots + 2, 2, 0))).find_or_make(0, Epoch{0}),
            nullptr);
  // Shards of a few slots, but numbers that do not fit into the map.
  EXPECT_EQ(PartialMaps(PartialMoves(partial((uint64_t{1} << 32) + 1, 1u << 20, 0)))
                .find_or_make(0, Epoch{0}),
            nullptr);
}

TEST(PartialMaps, ServeThreadsThatAreInDifferentEpochs) {
  const PartialMoves moves(partial(1003, 7, 0.3));
  PartialMaps maps(moves);
  std::vector<std::string> wrong(4);
  {
    std::vector<std::jthread> threads;
    for (uint64_t thread = 0; thread < wrong.size(); ++thread) {
      threads.emplace_back([&, thread] {
        for (uint64_t e = 0; e < 40; ++e) {
          const Epoch epoch{e + thread % 3};
          wrong[thread] += wrong_slot(maps.find_or_make(2, epoch).get(), moves, 2, epoch);
        }
      });
    }
  }
  for (const std::string& slots : wrong) EXPECT_EQ(slots, "");
}

}  // namespace
}  // namespace millrace::loader
