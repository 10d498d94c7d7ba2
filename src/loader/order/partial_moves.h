// PartialMoves: where samples go when shards exchange a fraction Q of them after every epoch.
//
// Slots are taken two by two. When a pair is dealt, the samples that lie in its two slots in all
// shards change places among themselves: each shard's two are swapped or not, and then one
// permutation of the shards for each of the slots says who has what. So every shard gives and gets
// equally many, and where a sample lies follows from how often its pair was dealt, from nothing
// else: the number of the deal names the swaps and the permutations, of where the samples were in
// epoch 0. Any epoch is as near as the first, without tables and without a walk
// (docs/design/shuffling.md says what was rejected).
//
// After every epoch the next Q of the pairs are dealt, the same in all shards, in an order that
// spreads those of one epoch evenly over a shard. In 1/Q epochs every sample has its turn once. A
// sample that a deal leaves in its shard does not travel. Slots that not every shard has (shards of
// uneven size) are not exchanged.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "base/divisor.h"
#include "loader/order/order.h"
#include "loader/order/order_key.h"
#include "loader/order/shard_dealer.h"
#include "loader/order/shards.h"

namespace millrace::loader {

class PartialMoves {
 public:
  // Of the options of a partial order that check_order() found good.
  explicit PartialMoves(const OrderOptions& options);

  const Shards& shards() const { return shards_; }

  // A turn is one slot of a pair that is dealt: the most samples that a shard gives in an epoch.
  uint64_t turn_count() const { return 2 * dealt_count_; }
  // The slot, in every shard, of a turn after the epoch. Nothing: the pair has but one.
  // REQUIRES: turn < turn_count()
  std::optional<uint64_t> slot_of_turn(data::Epoch epoch, uint64_t turn) const;

  data::SampleId sample_in(data::Epoch epoch, Slot slot) const {
    return shards_.at_home(home_of(deal_of(dealt_before(epoch), slot.index), slot));
  }
  Slot slot_of(data::Epoch epoch, data::SampleId sample) const {
    const Slot home = shards_.home_of(sample);
    return dealt_to(deal_of(dealt_before(epoch), home.index), home);
  }

  // Each slot becomes the one in which what it holds in the epoch lay in epoch 0. Many at a time
  // do not wait for each other.
  void go_home(data::Epoch epoch, std::span<Slot> slots) const;

 private:
  static constexpr size_t kAbreast = 256;

  // What was dealt before an epoch: all pairs so often, and the first places once more.
  struct Dealt {
    uint64_t times = 0;
    uint64_t places = 0;
  };
  Dealt dealt_before(data::Epoch epoch) const;

  // When a pair's turn comes, among all pairs, and which pair has its turn then.
  uint64_t place_of(uint64_t pair) const {
    return pairs_.divide(pair * place_step_ + first_place_).rest;
  }
  uint64_t pair_at(uint64_t place) const;

  // How often the pair of a slot was dealt; 0: what lies in the slot is what lay there at first.
  uint64_t deal_of(const Dealt& dealt, uint64_t slot) const {
    if (dealt_count_ == 0 || slot >= shards_.even_size()) return 0;
    return dealt.times + (place_of(slot / 2) < dealt.places ? 1 : 0);
  }

  // Where what lies in a slot after that deal lay at first, and the inverse.
  Slot home_of(uint64_t deal, Slot slot) const;
  Slot dealt_to(uint64_t deal, Slot home) const;

  // Whether a shard's two samples of a pair are swapped: a bit of each shard's, of which any two
  // are independent.
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
  uint64_t dealt_count_;  // pairs an epoch
  ShardDealer dealer_;
  Divisor pairs_;  // pair_count_, or 1
  uint64_t place_step_ = 1;
  uint64_t pair_step_ = 1;  // its inverse modulo pair_count_
  uint64_t first_place_ = 0;
};

}  // namespace millrace::loader
