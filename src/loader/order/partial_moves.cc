#include "loader/order/partial_moves.h"

#include <algorithm>

#include "loader/order/modulo.h"

namespace millrace::loader::order {
namespace {

__extension__ using uint128 = unsigned __int128;

// The number of pairs that an epoch deals. No more than the fraction, because the fraction bounds
// what a shard stores, but one pair if the fraction is at least one slot. The product is exact
// enough: a billion slots need 30 of its 53 bits. Beyond 2^53 it may be off by a pair, but equally
// on every machine, by IEEE 754.
uint64_t dealt_pairs(double fraction, uint64_t slots) {
  const double dealt = fraction * static_cast<double>(slots);
  if (dealt >= static_cast<double>(slots)) return (slots + 1) / 2;
  if (dealt < 1) return 0;
  return std::max<uint64_t>(static_cast<uint64_t>(dealt) / 2, 1);
}

}  // namespace

PartialMoves::PartialMoves(const Options& options)
    : shards_(options.sample_count, options.shard_count),
      seed_(options.seed),
      pair_count_((shards_.even_size() + 1) / 2),
      dealt_count_(shards_.count() == 1 ? 0 : dealt_pairs(options.fraction, shards_.even_size())),
      dealer_(options.shard_count, options.seed),
      pairs_(std::max<uint64_t>(pair_count_, 1)) {
  if (pair_count_ == 0) return;
  place_step_ = even_step(pair_count_);
  pair_step_ = inverse_modulo(place_step_, pair_count_);
  first_place_ = order_key({.seed = seed_, .purpose = Purpose::kFirstDealt}).low % pair_count_;
}

uint64_t PartialMoves::pair_at(uint64_t place) const {
  const uint64_t ahead =
      place >= first_place_ ? place - first_place_ : place + (pair_count_ - first_place_);
  return static_cast<uint64_t>(uint128{ahead} * pair_step_ % pair_count_);
}

PartialMoves::Dealt PartialMoves::dealt_before(data::Epoch epoch) const {
  uint64_t count = 0;
  if (!__builtin_mul_overflow(data::number_of(epoch), dealt_count_, &count)) {
    const auto [times, places] = pairs_.divide(count);
    return {.times = times, .places = places};
  }
  const uint128 all = uint128{data::number_of(epoch)} * dealt_count_;
  return {.times = static_cast<uint64_t>(all / pair_count_),
          .places = static_cast<uint64_t>(all % pair_count_)};
}

std::optional<uint64_t> PartialMoves::slot_of_turn(data::Epoch epoch, uint64_t turn) const {
  const uint64_t ahead = pairs_.divide(turn / 2).rest;
  uint64_t place = dealt_before(epoch).places;
  place = place >= pair_count_ - ahead ? place - (pair_count_ - ahead) : place + ahead;
  const uint64_t slot = 2 * pair_at(place) + turn % 2;
  if (slot >= shards_.even_size()) return {};
  return slot;
}

PartialMoves::Swaps PartialMoves::swaps(uint64_t deal, uint64_t slot) const {
  const PermutationKey key = order_key(
      {.seed = seed_, .epoch = data::Epoch{deal}, .purpose = Purpose::kSwapped, .which = slot / 2});
  return {.factor = key.low, .summand = key.high};
}

PermutationKey PartialMoves::holders(uint64_t deal, uint64_t slot) const {
  return order_key(
      {.seed = seed_, .epoch = data::Epoch{deal}, .purpose = Purpose::kHolders, .which = slot});
}

Slot PartialMoves::home_of(uint64_t deal, Slot slot) const {
  if (deal == 0) return slot;
  const uint64_t shard = dealer_.home_of(holders(deal, slot.index), slot.shard);
  const uint64_t swapped = is_alone(slot.index) ? 0 : swaps(deal, slot.index).of(shard);
  return {.shard = static_cast<uint32_t>(shard), .index = slot.index ^ swapped};
}

Slot PartialMoves::dealt_to(uint64_t deal, Slot home) const {
  if (deal == 0) return home;
  const uint64_t swapped = is_alone(home.index) ? 0 : swaps(deal, home.index).of(home.shard);
  const uint64_t index = home.index ^ swapped;
  return {.shard = static_cast<uint32_t>(dealer_.holder_of(holders(deal, index), home.shard)),
          .index = index};
}

// One loop per step instead of one for all: the iterations of each loop are independent, so that
// the CPU works on several at once.
void PartialMoves::go_home(data::Epoch epoch, std::span<Slot> slots) const {
  const Dealt dealt = dealt_before(epoch);
  std::array<uint64_t, kBlockSlots> low;  // deals, then the lower halves of their keys
  std::array<uint64_t, kBlockSlots> high;
  std::array<uint64_t, kBlockSlots> shards;
  for (; !slots.empty(); slots = slots.subspan(std::min(kBlockSlots, slots.size()))) {
    const auto some = slots.first(std::min(kBlockSlots, slots.size()));
    std::array<uint32_t, kBlockSlots> dealt_at;  // indexes into `some` of the slots that were dealt
    std::array<uint64_t, kBlockSlots> deals;
    size_t count = 0;
    for (size_t i = 0; i < some.size(); ++i) {
      const uint64_t deal = deal_of(dealt, some[i].index);
      dealt_at[count] = static_cast<uint32_t>(i);
      deals[count] = deal;
      count += deal > 0 ? 1 : 0;
    }
    const auto lows = std::span(low).first(count);
    const auto highs = std::span(high).first(count);
    for (size_t i = 0; i < count; ++i) {
      low[i] = deals[i];
      high[i] = named_purpose(Purpose::kHolders, some[dealt_at[i]].index);
      shards[i] = some[dealt_at[i]].shard;
    }
    order_keys(seed_, lows, highs);
    for (size_t i = 0; i < count; ++i) {
      shards[i] = dealer_.home_of({.low = low[i], .high = high[i]}, shards[i]);
      low[i] = deals[i];
      high[i] = named_purpose(Purpose::kSwapped, some[dealt_at[i]].index / 2);
    }
    order_keys(seed_, lows, highs);
    for (size_t i = 0; i < count; ++i) {
      Slot& slot = some[dealt_at[i]];
      const Swaps swaps{.factor = low[i], .summand = high[i]};
      const uint64_t swapped = is_alone(slot.index) ? 0 : swaps.of(shards[i]);
      slot = {.shard = static_cast<uint32_t>(shards[i]), .index = slot.index ^ swapped};
    }
  }
}

}  // namespace millrace::loader::order
