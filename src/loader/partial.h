// PartialMoves: where samples go when shards exchange a fraction Q of them after every epoch.
//
// In epoch e there are round(Q * even slots) turns. In turn k, shard r gives the sample in the k-th
// slot of an order of its own and gets one for the same slot; a permutation of the shards, drawn
// for the turn, says to whom. Every shard therefore gives and gets equally many, and everybody
// knows from the seed alone who has what: nothing has to be told. A shard that is its own target
// keeps the sample. A slot that not every shard has (shards of uneven size) is never exchanged.
//
// The order of slots is each shard's own: with one for all, samples that once lay in equal slots
// would for ever lie in different shards, and never meet in a batch.
//
// To find what lies in a slot, the moves are walked back to epoch 0, where shards are contiguous
// (order_shards.h): about 100 ns an epoch, and no memory.
#pragma once

#include <cstdint>

#include "base/permutation.h"
#include "loader/order.h"
#include "loader/order_key.h"
#include "loader/order_shards.h"

namespace millrace::loader {

class PartialMoves {
 public:
  // Of the options of a partial order that check_order() found good.
  explicit PartialMoves(const OrderOptions& options);

  const Shards& shards() const { return shards_; }
  uint64_t turn_count() const { return turn_count_; }  // samples a shard gives, and gets, an epoch

  // The slots of a shard in the order of its turns in an epoch; of these, turn_count() are used.
  KeyedPermutation slots(data::Epoch epoch, uint32_t shard) const {
    return slots_.with_key(key(epoch, OrderPurpose::kExchangedSlots, shard));
  }

  // Who gives to whom in a turn: target = at(giver).
  KeyedPermutation targets(data::Epoch epoch, uint64_t turn) const {
    return targets_.with_key(key(epoch, OrderPurpose::kExchangeTurn, turn));
  }

  // Where the sample that lies in `slot` in `epoch` lies in the next, and the reverse: where the
  // sample that lies in `slot` in the epoch after `epoch` lay.
  Slot after(data::Epoch epoch, Slot slot) const;
  Slot before(data::Epoch epoch, Slot slot) const;

  // Where the sample lies that `target` gets in a turn.
  Slot given(data::Epoch epoch, uint64_t turn, uint32_t target) const {
    const auto giver = static_cast<uint32_t>(targets(epoch, turn).inverse(target));
    return {.shard = giver, .index = slots(epoch, giver).at(turn)};
  }

  data::SampleId sample_in(data::Epoch epoch, Slot slot) const;
  Slot slot_of(data::Epoch epoch, data::SampleId sample) const;

 private:
  PermutationKey key(data::Epoch epoch, OrderPurpose purpose, uint64_t which) const {
    return order_key({.seed = seed_, .epoch = epoch, .purpose = purpose, .which = which});
  }

  Shards shards_;
  uint64_t seed_;
  uint64_t turn_count_;
  KeyedPermutation slots_;    // of no key yet
  KeyedPermutation targets_;  // likewise
};

}  // namespace millrace::loader
