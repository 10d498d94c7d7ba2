// PartialMoves: where samples go when shards exchange a fraction Q of them after every epoch.
//
// Slots form pairs. Dealing a pair permutes the samples in its two slots of all shards: first each
// shard swaps its two samples or not, then a permutation of the shards for each of the two slots
// assigns the samples to shards. So every shard sends and receives equally many. The slot of a
// sample depends only on how often its pair was dealt: the number of the deal names the swaps and
// the permutations, which apply to the slots of epoch 0. Any epoch therefore costs as little as the
// first, without tables and without iterating over epochs (docs/design/shuffling.md has the
// rejected alternatives).
//
// After every epoch the next fraction Q of the pairs is dealt, the same in all shards, in an order
// that spreads the pairs of one epoch evenly over a shard. In 1/Q epochs every sample has one turn.
// A sample whose deal leaves it in its shard is not sent. Slots that not every shard has (shards of
// uneven size) are not exchanged.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "base/numbers/divisor.h"
#include "loader/order/order.h"
#include "loader/order/order_key.h"
#include "loader/order/shard_dealer.h"
#include "loader/order/shards.h"

namespace millrace::loader::order {

class PartialMoves {
 public:
  // REQUIRES: options of a partial order that check_order() accepts
  explicit PartialMoves(const Options& options);

  const Shards& shards() const { return shards_; }

  // A turn is one slot of a dealt pair. This is the most samples that a shard sends per epoch.
  uint64_t turn_count() const { return 2 * dealt_count_; }
  // The slot, the same in every shard, of a turn after the epoch. Nullopt: the pair has only one
  // slot. REQUIRES: turn < turn_count()
  std::optional<uint64_t> slot_of_turn(data::Epoch epoch, uint64_t turn) const;

  data::SampleId sample_in(data::Epoch epoch, Slot slot) const {
    return shards_.at_home(home_of(deal_of(dealt_before(epoch), slot.index), slot));
  }
  Slot slot_of(data::Epoch epoch, data::SampleId sample) const {
    const Slot home = shards_.home_of(sample);
    return dealt_to(deal_of(dealt_before(epoch), home.index), home);
  }

  // Replaces each slot by the slot of epoch 0 whose sample it holds in `epoch`. Faster than one at
  // a time, because the CPU works on several at once.
  void go_home(data::Epoch epoch, std::span<Slot> slots) const;

 private:
  static constexpr size_t kBlockSlots = 256;

  // The deals before an epoch: all pairs `times` times, and the first `places` pairs once more.
  struct Dealt {
    uint64_t times = 0;
    uint64_t places = 0;
  };
  Dealt dealt_before(data::Epoch epoch) const;

  // The place of a pair in the order of dealing, and the pair at a place.
  uint64_t place_of(uint64_t pair) const {
    return pairs_.divide(pair * place_step_ + first_place_).rest;
  }
  uint64_t pair_at(uint64_t place) const;

  // How often the pair of a slot was dealt; 0: the slot still holds its sample of epoch 0.
  uint64_t deal_of(const Dealt& dealt, uint64_t slot) const {
    if (dealt_count_ == 0 || slot >= shards_.even_size()) return 0;
    return dealt.times + (place_of(slot / 2) < dealt.places ? 1 : 0);
  }

  // The slot of epoch 0 whose sample a slot holds after that deal, and the inverse.
  Slot home_of(uint64_t deal, Slot slot) const;
  Slot dealt_to(uint64_t deal, Slot home) const;

  // Whether a shard swaps its two samples of a pair: a bit per shard, pairwise independent.
  struct Swaps {
    uint64_t factor = 0;
    uint64_t summand = 0;
    uint64_t of(uint64_t shard) const { return (factor * shard + summand) >> 63; }
  };
  bool is_alone(uint64_t slot) const { return (slot | 1) >= shards_.even_size(); }
  Swaps swaps(uint64_t deal, uint64_t slot) const;
  PermutationKey holders(uint64_t deal, uint64_t slot) const;  // the bits of the dealer

  Shards shards_;
  uint64_t seed_;
  uint64_t pair_count_;
  uint64_t dealt_count_;  // pairs per epoch
  ShardDealer dealer_;
  Divisor pairs_;  // pair_count_, or 1
  uint64_t place_step_ = 1;
  uint64_t pair_step_ = 1;  // its inverse modulo pair_count_
  uint64_t first_place_ = 0;
};

}  // namespace millrace::loader::order
