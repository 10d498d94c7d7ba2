#include "loader/exchange/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "loader/testing/shard_job.h"

namespace millrace::loader::exchange {
namespace {

using data::Epoch;
using data::SampleId;

std::vector<Plan> plans_of(const order::PartialMoves& moves, Epoch epoch) {
  std::vector<Plan> plans;
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
  order::Options options_ =
      partial_order(GetParam().sample_count, GetParam().shard_count, GetParam().fraction);
  order::PartialMoves moves_{options_};
};

TEST_P(ExchangePlans, OfTwoRanksListTheSameSamplesInTheSameOrder) {
  using Key = std::tuple<uint64_t, uint32_t, uint32_t>;  // round, giver, target
  std::map<Key, std::vector<SampleId>> sent;
  std::map<Key, std::vector<SampleId>> received;
  for (const Plan& plan : plans_of(moves_, Epoch{2})) {
    size_t count = 0;
    for (uint64_t round = 0; round < plan.round_count(); ++round) {
      for (const Move& move : plan.sends_of(round)) {
        sent[{round, plan.rank, move.peer}].push_back(move.sample);
        ++count;
      }
      for (const Move& move : plan.receives_of(round)) {
        received[{round, move.peer, plan.rank}].push_back(move.sample);
      }
    }
    EXPECT_EQ(count, plan.sends.size());
  }
  EXPECT_EQ(sent, received);
}

TEST_P(ExchangePlans, SendAndReceiveEquallyMuch) {
  for (const Plan& plan : plans_of(moves_, Epoch{2})) {
    const double bound = GetParam().shard_count == 1
                             ? 0  // nobody to exchange with
                             : GetParam().fraction * static_cast<double>(GetParam().sample_count) /
                                   GetParam().shard_count;
    EXPECT_GT(static_cast<double>(plan.turn_count), bound - 3);
    EXPECT_LE(static_cast<double>(plan.turn_count), std::max(bound, 2.0));
    EXPECT_LE(plan.sends.size(), plan.turn_count);
    EXPECT_EQ(plan.sends.size(), plan.receives.size());
  }
}

// Applies the plans alone and compares the shards of all ranks with the order.
TEST_P(ExchangePlans, MoveEverySampleToTheShardOfTheOrder) {
  const order::Shards& shards = moves_.shards();
  const auto order = std::move(*order::make_order(options_));
  std::vector<std::set<SampleId>> held(shards.count());
  for (uint32_t rank = 0; rank < shards.count(); ++rank) {
    for (uint64_t slot = 0; slot < shards.size_of(rank); ++slot) {
      held[rank].insert(shards.at_home({.shard = rank, .index = slot}));
    }
  }
  for (uint64_t e = 0; e < 12; ++e) {
    for (const Plan& plan : plans_of(moves_, Epoch{e})) {
      for (const Move& move : plan.sends) {
        ASSERT_TRUE(held[plan.rank].contains(move.sample));
        ASSERT_NE(move.peer, plan.rank);
      }
      for (const Move& move : plan.receives) {
        ASSERT_EQ(held[plan.rank].erase(move.in_place_of), 1u);
      }
    }
    for (const Plan& plan : plans_of(moves_, Epoch{e})) {
      for (const Move& move : plan.receives) held[plan.rank].insert(move.sample);
    }
    std::set<SampleId> all;
    for (uint32_t rank = 0; rank < shards.count(); ++rank) {
      std::set<SampleId> visited;
      for (uint64_t p = rank; p < order->size(); p += shards.count()) {
        visited.insert(order->at(Epoch{e + 1}, p));
      }
      ASSERT_EQ(held[rank], visited);
      all.insert(visited.begin(), visited.end());
    }
    ASSERT_EQ(all.size(), order->size());
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, ExchangePlans,
                         testing::Values(Case{0, 3, 0.5}, Case{1, 1, 1}, Case{2, 3, 1},
                                         Case{100, 1, 0.3}, Case{100, 4, 0}, Case{103, 4, 0.1},
                                         Case{1000, 7, 0.3}, Case{600, 20, 1}));

}  // namespace
}  // namespace millrace::loader::exchange
