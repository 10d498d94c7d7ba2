#include "loader/exchange/plan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <vector>

namespace millrace::loader {
namespace {

using data::Epoch;
using data::SampleId;

OrderOptions partial(uint64_t sample_count, uint32_t shard_count, double fraction) {
  return {.shuffle = Shuffle::kPartial,
          .sample_count = sample_count,
          .seed = 11,
          .shard_count = shard_count,
          .fraction = fraction};
}

std::vector<ExchangePlan> plans_of(const PartialMoves& moves, Epoch epoch) {
  std::vector<ExchangePlan> plans;
  for (uint32_t rank = 0; rank < moves.shards().count(); ++rank) {
    plans.push_back(plan_exchange(moves, epoch, rank));
  }
  return plans;
}

struct Case {
  uint64_t sample_count;
  uint32_t shard_count;
  double fraction;
};

class ExchangePlans : public testing::TestWithParam<Case> {
 protected:
  OrderOptions options_ =
      partial(GetParam().sample_count, GetParam().shard_count, GetParam().fraction);
  PartialMoves moves_{options_};
};

TEST_P(ExchangePlans, OfAPairOfRanksHaveTheSameSamplesInTheSameOrder) {
  using Key = std::tuple<uint64_t, uint32_t, uint32_t>;  // round, giver, target
  std::map<Key, std::vector<SampleId>> sent;
  std::map<Key, std::vector<SampleId>> received;
  for (const ExchangePlan& plan : plans_of(moves_, Epoch{2})) {
    size_t count = 0;
    for (uint64_t round = 0; round < plan.round_count(); ++round) {
      for (const ExchangeMove& move : plan.sends_of(round)) {
        sent[{round, plan.rank, move.peer}].push_back(move.sample);
        ++count;
      }
      for (const ExchangeMove& move : plan.receives_of(round)) {
        received[{round, move.peer, plan.rank}].push_back(move.sample);
      }
    }
    EXPECT_EQ(count, plan.sends.size());
  }
  EXPECT_EQ(sent, received);
}

TEST_P(ExchangePlans, GiveAndGetEquallyMuch) {
  for (const ExchangePlan& plan : plans_of(moves_, Epoch{2})) {
    const double bound =
        GetParam().fraction * static_cast<double>(GetParam().sample_count) / GetParam().shard_count;
    EXPECT_LE(std::abs(static_cast<double>(plan.turn_count) - bound), 1);
    EXPECT_LE(plan.sends.size(), plan.turn_count);
    EXPECT_EQ(plan.sends.size(), plan.receives.size());
  }
}

// The storages of all ranks, moved by the plans alone, hold what the order says.
TEST_P(ExchangePlans, LeaveEverySampleWithOneOwnerWhereTheOrderHasIt) {
  const Shards& shards = moves_.shards();
  const auto order = std::move(*make_order(options_));
  std::vector<std::vector<SampleId>> held(shards.count());
  for (uint32_t rank = 0; rank < shards.count(); ++rank) {
    for (uint64_t slot = 0; slot < shards.size_of(rank); ++slot) {
      held[rank].push_back(shards.at_home({.shard = rank, .index = slot}));
    }
  }
  for (uint64_t e = 0; e < 4; ++e) {
    for (const ExchangePlan& plan : plans_of(moves_, Epoch{e})) {
      for (const ExchangeMove& move : plan.sends) {
        ASSERT_EQ(held[plan.rank][move.slot], move.sample);
        ASSERT_NE(move.peer, plan.rank);
      }
    }
    for (const ExchangePlan& plan : plans_of(moves_, Epoch{e})) {
      for (const ExchangeMove& move : plan.receives) held[plan.rank][move.slot] = move.sample;
    }
    std::set<SampleId> all;
    for (uint32_t rank = 0; rank < shards.count(); ++rank) {
      std::set<SampleId> visited;
      for (uint64_t p = rank; p < order->size(); p += shards.count()) {
        visited.insert(order->at(Epoch{e + 1}, p));
      }
      ASSERT_EQ(std::set<SampleId>(held[rank].begin(), held[rank].end()), visited);
      all.insert(visited.begin(), visited.end());
    }
    ASSERT_EQ(all.size(), order->size());
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, ExchangePlans,
                         testing::Values(Case{0, 3, 0.5}, Case{1, 1, 1}, Case{2, 3, 1},
                                         Case{100, 1, 0.3}, Case{100, 4, 0}, Case{103, 4, 0.1},
                                         Case{1000, 7, 0.3}, Case{600, 20, 1}));

TEST(PartialMoves, AreWalkedBackAndForth) {
  const PartialMoves moves(partial(1003, 7, 0.4));
  for (const uint64_t e : {0, 1, 2, 3, 6, 7, 50}) {
    for (uint64_t sample = 0; sample < 1003; ++sample) {
      const Slot slot = moves.slot_of(Epoch{e}, SampleId{sample});
      ASSERT_EQ(moves.sample_in(Epoch{e}, slot), SampleId{sample}) << e;
    }
  }
}

TEST(PartialMoves, OfManySlotsAreWalkedBackAsThoseOfOne) {
  for (const double fraction : {0.0, 0.03, 0.4, 1.0}) {
    for (const size_t together : {3, 143}) {  // fewer than shards, and more
      const PartialMoves moves(partial(1003, 7, fraction));
      for (const uint64_t e : {0, 1, 2, 3, 6, 7, 50}) {
        std::vector<Slot> slots;
        for (uint64_t i = 0; i < together; ++i) {
          slots.push_back({.shard = static_cast<uint32_t>(i % 7), .index = i});
        }
        const std::vector<Slot> asked = slots;
        moves.walk_back(Epoch{e}, slots);
        for (size_t i = 0; i < together; ++i) {
          ASSERT_EQ(moves.shards().at_home(slots[i]), moves.sample_in(Epoch{e}, asked[i])) << e;
        }
      }
    }
  }
}

TEST(PartialMoves, GiveEverySampleItsTurnInACycle) {
  const PartialMoves moves(partial(4000, 4, 0.1));
  ASSERT_EQ(moves.cycle_epochs(), 10u);
  for (uint64_t slot = 0; slot < 1000; ++slot) {
    EXPECT_TRUE(moves.move_of(3, {.shard = 2, .index = slot}).has_value());
  }
}

}  // namespace
}  // namespace millrace::loader
