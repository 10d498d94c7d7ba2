#include "loader/partial_memory.h"

namespace millrace::loader {
namespace {

constexpr data::Epoch kEpochMax{(uint64_t{1} << 24) - 1};

}  // namespace

PartialMemory::PartialMemory(const PartialMoves& moves, uint32_t shard)
    : moves_(&moves), shard_(shard), slots_(moves.slots(0, shard)) {
  known_.reserve(moves.shards().size_of(shard));
  for (uint64_t slot = 0; slot < moves.shards().size_of(shard); ++slot) {
    known_.emplace_back(data::Epoch{0}, moves.shards().at_home({.shard = shard, .index = slot}));
  }
}

data::SampleId PartialMemory::sample_in(data::Epoch epoch, uint64_t slot) {
  Known& known = known_[slot];
  if (epoch < known.epoch() || epoch > kEpochMax) {
    return moves_->sample_in(epoch, {.shard = shard_, .index = slot});
  }
  const data::SampleId sample = walked_back(epoch, slot);
  known = Known(epoch, sample);
  return sample;
}

data::SampleId PartialMemory::walked_back(data::Epoch epoch, uint64_t slot) {
  const data::Epoch since = known_[slot].epoch();
  for (uint64_t cycle = moves_->cycle_of(epoch);; --cycle) {
    const auto move = moves_->move_of(cycle, slots_of(cycle), slot);
    if (move && move->epoch < epoch && move->epoch >= since) {
      // What came by this move lay elsewhere until then, and there is no memory of that.
      return moves_->sample_in(move->epoch, moves_->giver_of(*move, shard_));
    }
    if (cycle <= moves_->cycle_of(since)) return known_[slot].sample();
  }
}

const KeyedPermutation& PartialMemory::slots_of(uint64_t cycle) {
  if (cycle != cycle_) {
    cycle_ = cycle;
    slots_ = moves_->slots(cycle, shard_);
  }
  return slots_;
}

}  // namespace millrace::loader
