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
