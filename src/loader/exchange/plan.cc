#include "loader/exchange/plan.h"

#include <algorithm>

namespace millrace::loader {
namespace {

constexpr uint64_t kTurnsTogether = 8192;  // walked back together (PartialMoves::walk_back)

// As many turns from `first` on as `given` is long, which is used up.
void add_turns(const PartialMoves& moves, uint64_t first, std::span<Slot> given,
               ExchangePlan& plan) {
  const data::Epoch epoch = plan.epoch;
  std::vector<Slot> own(given.size());
  std::vector<uint64_t> slots(given.size());
  moves.slots(moves.cycle_of(epoch), plan.rank)
      .fill(moves.first_place(epoch) + first, 1, std::span(slots));
  for (size_t i = 0; i < own.size(); ++i) own[i] = {.shard = plan.rank, .index = slots[i]};
  moves.givers_of(epoch, first, plan.rank, given);
  std::vector<uint32_t> givers(given.size());
  for (size_t i = 0; i < given.size(); ++i) givers[i] = given[i].shard;
  moves.walk_back(epoch, own);
  moves.walk_back(epoch, given);
  for (size_t i = 0; i < given.size(); ++i) {
    const uint64_t turn = first + i;
    const auto target = static_cast<uint32_t>(moves.targets(epoch, turn).at(plan.rank));
    if (target == plan.rank) continue;  // the giver is the rank itself as well
    plan.sends.push_back(
        {.turn = turn, .peer = target, .slot = slots[i], .sample = moves.shards().at_home(own[i])});
    plan.receives.push_back({.turn = turn,
                             .peer = givers[i],
                             .slot = slots[i],
                             .sample = moves.shards().at_home(given[i])});
  }
}

}  // namespace

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
  std::vector<Slot> given;
  for (uint64_t first = 0; first < plan.turn_count; first += given.size()) {
    given.resize(std::min(kTurnsTogether, plan.turn_count - first));
    add_turns(moves, first, given, plan);
  }
  return plan;
}

}  // namespace millrace::loader
