#include "loader/partial.h"

#include <algorithm>
#include <cmath>

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
      slots_(shards_.even_size(), {}),
      targets_(options.shard_count, {}) {}

Slot PartialMoves::after(data::Epoch epoch, Slot slot) const {
  if (turn_count_ == 0 || slot.index >= shards_.even_size()) return slot;
  const uint64_t turn = slots(epoch, slot.shard).inverse(slot.index);
  if (turn >= turn_count_) return slot;
  const auto target = static_cast<uint32_t>(targets(epoch, turn).at(slot.shard));
  return {.shard = target, .index = slots(epoch, target).at(turn)};
}

Slot PartialMoves::before(data::Epoch epoch, Slot slot) const {
  if (turn_count_ == 0 || slot.index >= shards_.even_size()) return slot;
  const uint64_t turn = slots(epoch, slot.shard).inverse(slot.index);
  if (turn >= turn_count_) return slot;
  return given(epoch, turn, slot.shard);
}

data::SampleId PartialMoves::sample_in(data::Epoch epoch, Slot slot) const {
  if (turn_count_ == 0) return shards_.at_home(slot);
  for (uint64_t e = data::number_of(epoch); e > 0; --e) slot = before(data::Epoch{e - 1}, slot);
  return shards_.at_home(slot);
}

Slot PartialMoves::slot_of(data::Epoch epoch, data::SampleId sample) const {
  Slot slot = shards_.home_of(sample);
  if (turn_count_ == 0) return slot;
  for (uint64_t e = 0; e < data::number_of(epoch); ++e) slot = after(data::Epoch{e}, slot);
  return slot;
}

}  // namespace millrace::loader
