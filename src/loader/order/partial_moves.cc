#include "loader/order/partial_moves.h"

#include <algorithm>
#include <array>
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

constexpr size_t kAbreast = 256;

}  // namespace

// The orders of slots of all shards in one cycle at a time, each made when it is first needed.
class PartialMoves::CycleOrders {
 public:
  explicit CycleOrders(const PartialMoves& moves)
      : moves_(moves),
        orders_(moves.shards().count(), KeyedPermutation(0, {})),
        is_made_(moves.shards().count(), 0) {}

  void start(uint64_t cycle) {
    cycle_ = cycle;
    std::ranges::fill(is_made_, 0);
  }

  const KeyedPermutation& of(uint64_t shard) {
    if (is_made_[shard] == 0) {
      orders_[shard] = moves_.slots(cycle_, static_cast<uint32_t>(shard));
      is_made_[shard] = 1;
    }
    return orders_[shard];
  }

 private:
  const PartialMoves& moves_;
  uint64_t cycle_ = 0;
  std::vector<KeyedPermutation> orders_;
  std::vector<uint8_t> is_made_;
};

PartialMoves::PartialMoves(const OrderOptions& options)
    : shards_(options.sample_count, options.shard_count),
      seed_(options.seed),
      turn_count_(turns_of(options.fraction, shards_.even_size())),
      cycle_epochs_(turn_count_ == 0 ? 1 : shards_.even_size() / turn_count_),
      slots_(shards_.even_size(), {}),
      targets_(options.shard_count, {}) {}

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
  CycleOrders orders(*this);
  const uint64_t last = cycle_of(epoch);
  for (uint64_t cycle = last + 1; cycle-- > 0;) {
    orders.start(cycle);
    const uint64_t moved_count = cycle == last ? first_place(epoch) : cycle_epochs_ * turn_count_;
    for (size_t first = 0; moved_count > 0 && first < slots.size(); first += kAbreast) {
      step_back({.cycle = cycle, .moved_count = moved_count}, orders,
                slots.subspan(first, std::min(kAbreast, slots.size() - first)));
    }
  }
}

// Three short loops, and not one: no number waits for another in them, and a processor has several
// in work.
void PartialMoves::step_back(const Step& step, CycleOrders& orders, std::span<Slot> slots) const {
  std::array<uint64_t, kAbreast> places;
  for (size_t i = 0; i < slots.size(); ++i) {
    const auto [shard, index] = slots[i];
    places[i] = index < shards_.even_size() ? orders.of(shard).inverse(index) : step.moved_count;
  }
  const uint64_t first_epoch = step.cycle * cycle_epochs_;
  for (size_t i = 0; i < slots.size(); ++i) {
    if (places[i] >= step.moved_count) continue;
    const data::Epoch epoch{first_epoch + places[i] / turn_count_};
    const KeyedPermutation target_of = targets(epoch, places[i] % turn_count_);
    slots[i].shard = static_cast<uint32_t>(target_of.inverse(slots[i].shard));
  }
  for (size_t i = 0; i < slots.size(); ++i) {
    if (places[i] < step.moved_count) slots[i].index = orders.of(slots[i].shard).at(places[i]);
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
