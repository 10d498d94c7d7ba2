// PartialMoves: where samples go when shards exchange a fraction Q of them after every epoch.
//
// Each epoch has round(Q * even slots) turns. In a turn, shard r gives the sample of one of its
// slots and gets another for it; a permutation of the shards, drawn for the turn, says to whom.
// Every shard therefore gives and gets equally many, and everybody knows from the seed alone who
// has what: nothing has to be told. A shard that is its own target keeps the sample. A slot that
// not every shard has (shards of uneven size) is never exchanged.
//
// Which slots: each shard draws an order of its slots for a cycle of as many epochs as the turns go
// through them once (Q = 0.1: ten epochs), and the epochs take them in that order. In any one epoch
// they are a random choice; over a cycle every sample moves once, and none is forgotten. The order
// is each shard's own: with one for all, samples that once lay in equal slots would for ever lie in
// different shards, and never meet in a batch.
//
// To find what lies in a slot, its moves are walked back to epoch 0, where shards are contiguous
// (shards.h): one step a cycle, and no memory. A new choice every epoch, as in the published
// scheme, would take a step an epoch (docs/design/shuffling.md).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "base/divisor.h"
#include "base/permutation.h"
#include "loader/order/kept_permutations.h"
#include "loader/order/key.h"
#include "loader/order/order.h"
#include "loader/order/shards.h"

namespace millrace::loader {

class PartialMoves {
 public:
  // Of the options of a partial order that check_order() found good.
  explicit PartialMoves(const OrderOptions& options);

  const Shards& shards() const { return shards_; }
  uint64_t turn_count() const { return turn_count_; }  // samples a shard gives, and gets, an epoch

  // The epochs in which the turns go through the slots once. At least 1.
  uint64_t cycle_epochs() const { return cycle_epochs_; }
  uint64_t cycle_of(data::Epoch epoch) const { return data::number_of(epoch) / cycle_epochs_; }

  // The slots of a shard in the order in which a cycle takes them. Turn k of an epoch has the place
  // first_place(epoch) + k; those past cycle_epochs() * turn_count() stay out of this cycle.
  KeyedPermutation slots(uint64_t cycle, uint32_t shard) const {
    return kept_.find(slots_, cycle, shard, [&] {
      return slots_.with_key(key(data::Epoch{cycle}, OrderPurpose::kExchangedSlots, shard));
    });
  }
  uint64_t first_place(data::Epoch epoch) const {
    return data::number_of(epoch) % cycle_epochs_ * turn_count_;
  }

  // Who gives to whom in a turn: target = at(giver).
  KeyedPermutation targets(data::Epoch epoch, uint64_t turn) const {
    return targets_.with_key(key(epoch, OrderPurpose::kExchangeTurn, turn));
  }

  // The move of a slot in a cycle.
  struct Move {
    uint64_t place = 0;
    data::Epoch epoch{};  // after which the slot changes its sample
  };
  // Nothing: the slot keeps its sample in this cycle.
  std::optional<Move> move_of(uint64_t cycle, Slot slot) const {
    return move_of(cycle, slots(cycle, slot.shard), slot.index);
  }
  std::optional<Move> move_of(uint64_t cycle, const KeyedPermutation& slots, uint64_t slot) const {
    if (turn_count_ == 0 || slot >= shards_.even_size()) return {};
    const uint64_t place = slots.inverse(slot);
    if (place >= cycle_epochs_ * turn_count_) return {};
    return Move{.place = place,
                .epoch = data::Epoch{cycle * cycle_epochs_ + turns_.divide(place).quotient}};
  }

  // Where the sample that `target` gets by a move lies until then, and where that which `giver`
  // gives lies afterwards.
  Slot giver_of(const Move& move, uint32_t target) const {
    return in_place(move, targets(move.epoch, turn_of(move)).inverse(target));
  }
  Slot target_of(const Move& move, uint32_t giver) const {
    return in_place(move, targets(move.epoch, turn_of(move)).at(giver));
  }

  // giver_of() the moves after an epoch, from a turn on, for many turns at a time.
  void givers_of(data::Epoch epoch, uint64_t first_turn, uint32_t target,
                 std::span<Slot> givers) const;
  // Who gives to whom in some turns after an epoch: turn after turn, the targets of all shards.
  // REQUIRES: the length is a multiple of the number of shards
  void targets_of(data::Epoch epoch, uint64_t first_turn, std::span<uint32_t> targets) const;

  data::SampleId sample_in(data::Epoch epoch, Slot slot) const;
  Slot slot_of(data::Epoch epoch, data::SampleId sample) const;

  // Each slot becomes the one in which what it holds in the epoch lay in epoch 0. For many at a
  // time: what slots have in common is computed once, and they do not wait for each other.
  void walk_back(data::Epoch epoch, std::span<Slot> slots) const;

 private:
  static constexpr size_t kAbreast = 256;
  using Numbers = std::array<uint64_t, kAbreast>;

  // Moves that are followed side by side.
  struct Abreast {
    size_t count = 0;
    Numbers places;
    Numbers shards;   // that get; then, that give
    Numbers indices;  // of the slots that give
  };
  struct Step {
    uint64_t cycle = 0;
    uint64_t moved_count = 0;                             // places whose moves are made by now
    std::span<const KeyedPermutation::RoundKeys> orders;  // of the cycle, by shard
  };

  void take_orders(uint64_t cycle, std::span<KeyedPermutation::RoundKeys> orders) const;
  void step_back(const Step& step, std::span<Slot> slots) const;
  void find_givers(const Step& step, Abreast& moves) const;

  PermutationKey key(data::Epoch epoch, OrderPurpose purpose, uint64_t which) const {
    return order_key({.seed = seed_, .epoch = epoch, .purpose = purpose, .which = which});
  }

  uint64_t turn_of(const Move& move) const { return move.place - first_place(move.epoch); }
  Slot in_place(const Move& move, uint64_t shard) const {
    const auto other = static_cast<uint32_t>(shard);
    return {.shard = other, .index = slots(cycle_of(move.epoch), other).at(move.place)};
  }

  Shards shards_;
  uint64_t seed_;
  uint64_t turn_count_;
  uint64_t cycle_epochs_;
  KeyedPermutation slots_;    // of no key yet
  KeyedPermutation targets_;  // likewise
  Divisor turns_;             // turn_count_, or 1
  KeptPermutations kept_;
};

}  // namespace millrace::loader
