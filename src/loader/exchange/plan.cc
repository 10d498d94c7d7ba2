#include "loader/exchange/plan.h"

#include <algorithm>

namespace millrace::loader::exchange {
namespace {

// Adds what leaves and enters the two slots of a pair. Both are equally many, because the rank has
// as many samples of the pair before as after. A sample that stays on the rank, in either slot, is
// in neither list.
void add_pair(const order::PartialMoves& moves, uint64_t first_turn, Plan& plan) {
  const data::Epoch next{data::number_of(plan.epoch) + 1};
  const size_t first = plan.sends.size();
  for (uint64_t turn = first_turn; turn < first_turn + 2; ++turn) {
    const auto slot = moves.slot_of_turn(plan.epoch, turn);
    if (!slot) continue;
    const order::Slot own{.shard = plan.rank, .index = *slot};
    const data::SampleId leaves = moves.sample_in(plan.epoch, own);
    const uint32_t target = moves.slot_of(next, leaves).shard;
    if (target != plan.rank) {
      plan.sends.push_back({.turn = turn, .peer = target, .sample = leaves, .in_place_of = leaves});
    }
    const data::SampleId comes = moves.sample_in(next, own);
    const order::Slot from = moves.slot_of(plan.epoch, comes);
    if (from.shard != plan.rank) {
      plan.receives.push_back(
          {.turn = first_turn + from.index % 2, .peer = from.shard, .sample = comes});
    }
  }
  const auto received = std::span(plan.receives).subspan(first);
  std::ranges::sort(received, {}, &Move::turn);
  for (size_t i = 0; i < received.size(); ++i) {
    received[i].in_place_of = plan.sends[first + i].sample;
  }
}

}  // namespace

uint64_t Plan::round_count() const {
  const uint64_t by_messages = turn_count / (kSamplesPerMessage * rank_count);
  return std::min(turn_count, std::clamp(by_messages, kRoundCountMin, kRoundCountMax));
}

std::span<const Move> Plan::of_round(const std::vector<Move>& moves, uint64_t round) const {
  // Not round * turn_count / round_count: the product may overflow.
  const uint64_t rounds = round_count();
  const auto first_turn = [&](uint64_t r) {
    return turn_count / rounds * r + std::min(r, turn_count % rounds);
  };
  const auto begin = std::ranges::lower_bound(moves, first_turn(round), {}, &Move::turn);
  const auto end = std::ranges::lower_bound(moves, first_turn(round + 1), {}, &Move::turn);
  return {begin, end};
}

Plan plan_exchange(const order::PartialMoves& moves, data::Epoch epoch, uint32_t rank) {
  Plan plan{.epoch = epoch,
            .rank = rank,
            .rank_count = moves.shards().count(),
            .turn_count = moves.turn_count()};
  plan.sends.reserve(plan.turn_count);
  plan.receives.reserve(plan.turn_count);
  for (uint64_t turn = 0; turn < plan.turn_count; turn += 2) add_pair(moves, turn, plan);
  return plan;
}

}  // namespace millrace::loader::exchange
