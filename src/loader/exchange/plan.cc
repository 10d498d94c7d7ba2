#include "loader/exchange/plan.h"

#include <algorithm>

namespace millrace::loader {

uint64_t ExchangePlan::round_count() const {
  const uint64_t by_messages = turn_count / (kSamplesPerMessage * rank_count);
  return std::min(turn_count, std::clamp(by_messages, kRoundCountMin, kRoundCountMax));
}

std::span<const ExchangeMove> ExchangePlan::of_round(const std::vector<ExchangeMove>& moves,
                                                     uint64_t round) const {
  // Not round * turn_count / round_count, whose product may not fit.
  const uint64_t rounds = round_count();
  const auto first_turn = [&](uint64_t r) {
    return turn_count / rounds * r + std::min(r, turn_count % rounds);
  };
  const auto begin = std::ranges::lower_bound(moves, first_turn(round), {}, &ExchangeMove::turn);
  const auto end = std::ranges::lower_bound(moves, first_turn(round + 1), {}, &ExchangeMove::turn);
  return {begin, end};
}

ExchangePlan plan_exchange(const PartialMoves& moves, data::Epoch epoch, uint32_t rank) {
  ExchangePlan plan{.epoch = epoch,
                    .rank = rank,
                    .rank_count = moves.shards().count(),
                    .turn_count = moves.turn_count()};
  plan.sends.reserve(plan.turn_count);
  plan.receives.reserve(plan.turn_count);
  const KeyedPermutation slots = moves.slots(moves.cycle_of(epoch), rank);
  for (uint64_t turn = 0; turn < plan.turn_count; ++turn) {
    const PartialMoves::Move move{.place = moves.first_place(epoch) + turn, .epoch = epoch};
    const auto target = static_cast<uint32_t>(moves.targets(epoch, turn).at(rank));
    if (target == rank) continue;  // the giver is the rank itself as well
    const Slot mine{.shard = rank, .index = slots.at(move.place)};
    const Slot given = moves.giver_of(move, rank);
    plan.sends.push_back(
        {.turn = turn, .peer = target, .slot = mine.index, .sample = moves.sample_in(epoch, mine)});
    plan.receives.push_back({.turn = turn,
                             .peer = given.shard,
                             .slot = mine.index,
                             .sample = moves.sample_in(epoch, given)});
  }
  return plan;
}

}  // namespace millrace::loader
