#include "loader/order/partial_moves.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace millrace::loader {
namespace {

// Rounded to the nearest, half up. The product is exact enough: a billion slots need 30 of its 53
// bits, and beyond 2^53 a slot more or less of all is the same on every machine, by IEEE 754.
uint64_t turns_of(double fraction, uint64_t slots) {
  const double turns = std::floor(fraction * static_cast<double>(slots) + 0.5);
  return std::min(static_cast<uint64_t>(turns), slots);
}

}  // namespace

PartialMoves::PartialMoves(const OrderOptions& options)
    : shards_(options.sample_count, options.shard_count),
      seed_(options.seed),
      turn_count_(turns_of(options.fraction, shards_.even_size())),
      cycle_epochs_(turn_count_ == 0 ? 1 : shards_.even_size() / turn_count_),
      slots_(shards_.even_size(), {}),
      targets_(options.shard_count, {}),
      turns_(std::max<uint64_t>(turn_count_, 1)),
      kept_(options.shard_count) {}

data::SampleId PartialMoves::sample_in(data::Epoch epoch, Slot slot) const {
  if (turn_count_ == 0) return shards_.at_home(slot);
  // A slot moves once a cycle at most: before its move, its sample is what it was at the begin.
  for (uint64_t cycle = cycle_of(epoch) + 1; cycle-- > 0;) {
    const auto move = move_of(cycle, slot);
    if (move && move->epoch < epoch) slot = giver_of(*move, slot.shard);
  }
  return shards_.at_home(slot);
}

void PartialMoves::walk_back(data::Epoch epoch, std::span<Slot> slots) const {
  if (turn_count_ == 0) return;
  if (slots.size() < shards_.count()) {  // to keep the orders of so many shards would not pay
    for (Slot& slot : slots) slot = shards_.home_of(sample_in(epoch, slot));
    return;
  }
  std::vector<KeyedPermutation::RoundKeys> orders(shards_.count());
  const uint64_t last = cycle_of(epoch);
  for (uint64_t cycle = last + 1; cycle-- > 0;) {
    const uint64_t moved_count = cycle == last ? first_place(epoch) : cycle_epochs_ * turn_count_;
    if (moved_count == 0) continue;
    take_orders(cycle, orders);
    for (size_t first = 0; first < slots.size(); first += kAbreast) {
      step_back({.cycle = cycle, .moved_count = moved_count, .orders = orders},
                slots.subspan(first, std::min(kAbreast, slots.size() - first)));
    }
  }
}

void PartialMoves::take_orders(uint64_t cycle,
                               std::span<KeyedPermutation::RoundKeys> orders) const {
  for (uint32_t shard = 0; shard < orders.size(); ++shard) {
    orders[shard] = this->slots(cycle, shard).round_keys();
  }
}

void PartialMoves::step_back(const Step& step, std::span<Slot> slots) const {
  std::array<size_t, kAbreast> of;  // the slot that a move is of
  std::array<uint32_t, kAbreast> shards;
  Abreast moves;
  for (size_t i = 0; i < slots.size(); ++i) {
    of[moves.count] = i;
    shards[moves.count] = slots[i].shard;
    moves.places[moves.count] = slots[i].index;
    moves.count += slots[i].index < shards_.even_size() ? 1 : 0;
  }
  slots_.inverse_each_by(step.orders, std::span(shards).first(moves.count),
                         std::span(moves.places).first(moves.count));
  size_t moved = 0;
  for (size_t i = 0; i < moves.count; ++i) {
    of[moved] = of[i];
    moves.shards[moved] = shards[i];
    moves.places[moved] = moves.places[i];
    moved += moves.places[i] < step.moved_count ? 1 : 0;
  }
  moves.count = moved;
  find_givers(step, moves);
  for (size_t i = 0; i < moves.count; ++i) {
    slots[of[i]] = {.shard = static_cast<uint32_t>(moves.shards[i]), .index = moves.indices[i]};
  }
}

// A loop a step, and not one for all: no number waits for another in them, and the processor has
// several in work.
void PartialMoves::find_givers(const Step& step, Abreast& moves) const {
  Numbers low;  // epochs, and what becomes of them
  Numbers high;
  const uint64_t first_epoch = step.cycle * cycle_epochs_;
  for (size_t i = 0; i < moves.count; ++i) {
    const auto [epoch, turn] = turns_.divide(moves.places[i]);
    low[i] = first_epoch + epoch;
    high[i] = named_purpose(OrderPurpose::kExchangeTurn, turn);
  }
  const auto lows = std::span(low).first(moves.count);
  const auto highs = std::span(high).first(moves.count);
  order_keys(seed_, lows, highs);
  targets_.inverse_by_keys(lows, highs, std::span(moves.shards).first(moves.count));
  std::array<uint32_t, kAbreast> shards;
  for (size_t i = 0; i < moves.count; ++i) {
    shards[i] = static_cast<uint32_t>(moves.shards[i]);
    moves.indices[i] = moves.places[i];
  }
  slots_.at_each_by(step.orders, std::span(shards).first(moves.count),
                    std::span(moves.indices).first(moves.count));
}

void PartialMoves::givers_of(data::Epoch epoch, uint64_t first_turn, uint32_t target,
                             std::span<Slot> givers) const {
  const uint64_t cycle = cycle_of(epoch);
  std::vector<KeyedPermutation::RoundKeys> orders(shards_.count());
  take_orders(cycle, orders);
  const uint64_t first = first_place(epoch) + first_turn;
  for (size_t done = 0; done < givers.size(); done += kAbreast) {
    Abreast moves{.count = std::min(kAbreast, givers.size() - done)};
    for (size_t i = 0; i < moves.count; ++i) {
      moves.places[i] = first + done + i;
      moves.shards[i] = target;
    }
    find_givers({.cycle = cycle, .moved_count = 0, .orders = orders}, moves);
    for (size_t i = 0; i < moves.count; ++i) {
      givers[done + i] = {.shard = static_cast<uint32_t>(moves.shards[i]),
                          .index = moves.indices[i]};
    }
  }
}

void PartialMoves::targets_of(data::Epoch epoch, uint64_t first_turn,
                              std::span<uint32_t> targets) const {
  Numbers low;
  Numbers high;
  const size_t turn_count = targets.size() / shards_.count();
  for (size_t first = 0; first < turn_count; first += kAbreast) {
    const size_t count = std::min(kAbreast, turn_count - first);
    for (size_t i = 0; i < count; ++i) {
      low[i] = data::number_of(epoch);
      high[i] = named_purpose(OrderPurpose::kExchangeTurn, first_turn + first + i);
    }
    order_keys(seed_, std::span(low).first(count), std::span(high).first(count));
    targets_.all_by_keys(std::span(low).first(count), std::span(high).first(count),
                         targets.subspan(first * shards_.count(), count * shards_.count()));
  }
}

Slot PartialMoves::slot_of(data::Epoch epoch, data::SampleId sample) const {
  Slot slot = shards_.home_of(sample);
  if (turn_count_ == 0) return slot;
  for (uint64_t cycle = 0; cycle <= cycle_of(epoch); ++cycle) {
    const auto move = move_of(cycle, slot);
    if (move && move->epoch < epoch) slot = target_of(*move, slot.shard);
  }
  return slot;
}

}  // namespace millrace::loader
