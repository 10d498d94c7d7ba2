// Plan: what one rank sends to and receives from each other rank during an epoch. It
// follows from the seed alone (partial_moves.h).
//
// The turn of a sample is that of the slot it leaves. Both lists are in order of turns on all
// ranks, so that the sender and the receiver of a message agree on the order of its samples without
// announcing it. Turns are divided into rounds, the same on all ranks; the samples for one peer in
// a round travel in one message.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/sample.h"
#include "loader/order/partial_moves.h"

namespace millrace::loader::exchange {

struct Move {
  uint64_t turn = 0;
  uint32_t peer = 0;  // the receiver or the sender; never the rank itself
  data::SampleId sample{};
  data::SampleId in_place_of{};  // receives only: the sample whose slot it takes

  bool operator==(const Move&) const = default;
};

struct Plan {
  // Enough rounds to spread the exchange over an epoch and to fit the samples of a round into
  // memory; up to the maximum if messages to each peer still have several samples.
  static constexpr uint64_t kRoundCountMin = 10;
  static constexpr uint64_t kRoundCountMax = 100;
  static constexpr uint64_t kSamplesPerMessage = 8;

  data::Epoch epoch{};  // during which samples travel; they are visited in the next epoch
  uint32_t rank = 0;
  uint32_t rank_count = 1;
  uint64_t turn_count = 0;
  std::vector<Move> sends;     // by turn
  std::vector<Move> receives;  // by turn; samples that stay on the rank are in neither

  uint64_t round_count() const;
  // REQUIRES: round < round_count()
  std::span<const Move> sends_of(uint64_t round) const { return of_round(sends, round); }
  std::span<const Move> receives_of(uint64_t round) const { return of_round(receives, round); }

 private:
  std::span<const Move> of_round(const std::vector<Move>& moves, uint64_t round) const;
};

Plan plan_exchange(const order::PartialMoves& moves, data::Epoch epoch, uint32_t rank);

}  // namespace millrace::loader::exchange
