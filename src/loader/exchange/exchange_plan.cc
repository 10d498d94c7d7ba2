#include "loader/exchange/exchange_plan.h"

#include <algorithm>

namespace millrace::loader {
namespace {

// Adds what leaves and enters the two slots of a pair. Both are equally many, because the rank has
// as many samples of the pair before as after. A sample that stays on the rank, in either slot, is
// in neither list.
void add_pair(const PartialMoves& moves, uint64_t first_turn, ExchangePlan& plan) {
  const data::Epoch next{data::number_of(plan.epoch) + 1};
  const size_t first = plan.sends.size();
  for (uint64_t turn = first_turn; turn < first_turn + 2; ++turn) {
    const auto slot = moves.slot_of_turn(plan.epoch, turn);
    if (!slot) continue;
    const Slot own{.shard = plan.rank, .index = *slot};
    const data::SampleId leaves = moves.sample_in(plan.epoch, own);
    const uint32_t target = moves.slot_of(next, leaves).shard;
    if (target != plan.rank) {
      plan.sends.push_back({.turn = turn, .peer = target, .sample = leaves, .in_place_of = leaves});
    }
    const data::SampleId comes = moves.sample_in(next, own);
    const Slot from = moves.slot_of(plan.epoch, comes);
    if (from.shard != plan.rank) {
      plan.receives.push_back(
          {.turn = first_turn + from.index % 2, .peer = from.shard, .sample = comes});
    }
  }
  const auto received = std::span(plan.receives).subspan(first);
  std::ranges::sort(received, {}, &ExchangeMove::turn);
  for (size_t i = 0; i < received.size(); ++i) {
    received[i].in_place_of = plan.sends[first + i].sample;
  }
}

}  // namespace

uint64_t ExchangePlan::round_count() const {
  const uint64_t by_messages = turn_count / (kSamplesPerMessage * rank_count);
  return std::min(turn_count, std::clamp(by_messages, kRoundCountMin, kRoundCountMax));
}

std::span<const ExchangeMove> ExchangePlan::of_round(const std::vector<ExchangeMove>& moves,
                                                     uint64_t round) const {
  // Not round * turn_count / round_count: the product may overflow.
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
  for (uint64_t turn = 0; turn < plan.turn_count; turn += 2) add_pair(moves, turn, plan);
  return plan;
}

}  // namespace millrace::loader
