// ExchangePlan: what one rank gives to whom during an epoch, and what it gets from whom; from the
// seed alone (partial_moves.h).
//
// A sample's turn is that of the slot which it leaves. Both lists are in the order of turns, on all
// ranks: the messages of a pair of ranks hold their samples in one order on both sides, and nothing
// has to be announced. Turns are cut into rounds, the same on all ranks, so that the samples for
// one peer in a round travel in one message.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/sample.h"
#include "loader/order/partial_moves.h"

namespace millrace::loader {

struct ExchangeMove {
  uint64_t turn = 0;
  uint32_t peer = 0;  // to whom, or from whom; never the rank itself
  data::SampleId sample{};
  data::SampleId in_place_of{};  // what is received: the sample that leaves this rank for it

  bool operator==(const ExchangeMove&) const = default;
};

struct ExchangePlan {
  // Enough rounds that the exchange spreads over an epoch and a round's samples fit into memory;
  // more, up to a point, where the messages to each peer are of several samples still.
  static constexpr uint64_t kRoundCountMin = 10;
  static constexpr uint64_t kRoundCountMax = 100;
  static constexpr uint64_t kSamplesPerMessage = 8;

  data::Epoch epoch{};  // during which samples travel; they are visited in the next
  uint32_t rank = 0;
  uint32_t rank_count = 1;
  uint64_t turn_count = 0;
  std::vector<ExchangeMove> sends;     // by turn
  std::vector<ExchangeMove> receives;  // by turn; a rank that is its own target is in neither

  uint64_t round_count() const;
  // REQUIRES: round < round_count()
  std::span<const ExchangeMove> sends_of(uint64_t round) const { return of_round(sends, round); }
  std::span<const ExchangeMove> receives_of(uint64_t round) const {
    return of_round(receives, round);
  }

 private:
  std::span<const ExchangeMove> of_round(const std::vector<ExchangeMove>& moves,
                                         uint64_t round) const;
};

ExchangePlan plan_exchange(const PartialMoves& moves, data::Epoch epoch, uint32_t rank);

}  // namespace millrace::loader
