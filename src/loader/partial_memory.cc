#include "loader/partial_memory.h"

namespace millrace::loader {

PartialMemory::PartialMemory(const PartialMoves& moves, uint32_t shard)
    : moves_(&moves),
      shard_(shard),
      known_(moves.shards().size_of(shard)),
      first_step_slots_(moves.slots(data::Epoch{0}, shard)) {
  for (uint64_t slot = 0; slot < known_.size(); ++slot) {
    known_[slot].sample = moves.shards().at_home({.shard = shard, .index = slot});
  }
}

data::SampleId PartialMemory::sample_in(data::Epoch epoch, uint64_t slot) {
  Known& known = known_[slot];
  const uint64_t asked = data::number_of(epoch);
  if (moves_->turn_count() == 0 || slot >= moves_->shards().even_size()) return known.sample;
  if (asked < known.epoch) return moves_->sample_in(epoch, {.shard = shard_, .index = slot});
  known = {.epoch = asked, .sample = walked_back(asked, slot)};
  return known.sample;
}

data::SampleId PartialMemory::walked_back(uint64_t epoch, uint64_t slot) {
  Slot where{.shard = shard_, .index = slot};
  for (uint64_t e = epoch; e > 0; --e) {
    if (where.shard == shard_ && known_[where.index].epoch == e) return known_[where.index].sample;
    where = e == epoch ? first_step(e - 1, slot) : moves_->before(data::Epoch{e - 1}, where);
  }
  return moves_->shards().at_home(where);
}

Slot PartialMemory::first_step(uint64_t epoch, uint64_t slot) {
  if (first_step_epoch_ != epoch) {
    first_step_epoch_ = epoch;
    first_step_slots_ = moves_->slots(data::Epoch{epoch}, shard_);
  }
  const uint64_t turn = first_step_slots_.inverse(slot);
  if (turn >= moves_->turn_count()) return {.shard = shard_, .index = slot};
  return moves_->given(data::Epoch{epoch}, turn, shard_);
}

}  // namespace millrace::loader
