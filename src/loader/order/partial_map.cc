#include "loader/order/partial_map.h"

#include <algorithm>
#include <utility>

namespace millrace::loader {
namespace {

// Slots that are walked back together: enough to share what a walk needs, and they fit into a
// processor's cache.
constexpr uint64_t kTogether = 8192;

uint32_t number_of(data::SampleId sample) { return static_cast<uint32_t>(data::index_of(sample)); }

}  // namespace

PartialMap::PartialMap(const PartialMoves& moves, uint32_t shard, data::Epoch epoch)
    : shard_(shard), epoch_(epoch), samples_(moves.shards().size_of(shard)) {
  std::vector<Slot> slots;
  for (uint64_t first = 0; first < samples_.size(); first += kTogether) {
    slots.clear();
    for (uint64_t slot = first; slot < std::min(first + kTogether, samples_.size()); ++slot) {
      slots.push_back({.shard = shard, .index = slot});
    }
    moves.walk_back(epoch, slots);
    for (size_t i = 0; i < slots.size(); ++i) {
      samples_[first + i] = number_of(moves.shards().at_home(slots[i]));
    }
  }
}

PartialMap::PartialMap(const PartialMoves& moves, uint32_t shard, const WholeMap& whole)
    : shard_(shard), epoch_(whole.epoch()), samples_(moves.shards().size_of(shard)) {
  std::ranges::copy(whole.samples_of(shard), samples_.begin());
  const uint64_t last = samples_.size() - 1;
  if (samples_.size() > moves.shards().even_size()) {
    samples_[last] = number_of(moves.shards().at_home({.shard = shard, .index = last}));
  }
}

void PartialMap::advance(const PartialMoves& moves) {
  const KeyedPermutation own = moves.slots(moves.cycle_of(epoch_), shard_);
  std::vector<Slot> givers;
  std::vector<uint64_t> targets;  // slots of this shard, by giver
  for (uint64_t first = 0; first < moves.turn_count(); first += kTogether) {
    givers.resize(std::min(kTogether, moves.turn_count() - first));
    targets.resize(givers.size());
    moves.givers_of(epoch_, first, shard_, givers);
    own.fill(moves.first_place(epoch_) + first, 1, std::span(targets));
    moves.walk_back(epoch_, givers);
    for (size_t i = 0; i < givers.size(); ++i) {
      samples_[targets[i]] = number_of(moves.shards().at_home(givers[i]));
    }
  }
  epoch_ = data::Epoch{data::number_of(epoch_) + 1};
}

std::shared_ptr<const PartialMap> PartialMaps::find_or_make(uint32_t shard, data::Epoch epoch) {
  if (!is_of(shard)) return {};
  if (Shared found = find(epoch)) return found;
  const std::lock_guard lock(making_);
  if (Shared found = find(epoch)) return found;  // somebody else has made it
  Shared made = make(shard, epoch);
  const std::lock_guard keeping(mutex_);
  kept_[1] = std::exchange(kept_[0], made);
  return made;
}

bool PartialMaps::is_of(uint32_t shard) {
  const Shards& shards = moves_->shards();
  if (shards.size_of(shard) > PartialMap::kSlotCountMax) return false;
  if (shards.sample_count() > PartialMap::kSampleCountMax) return false;
  const std::lock_guard lock(mutex_);
  if (!shard_) shard_ = shard;
  return *shard_ == shard;
}

PartialMaps::Shared PartialMaps::find(data::Epoch epoch) {
  const std::lock_guard lock(mutex_);
  for (Shared& kept : kept_) {
    if (!kept || kept->epoch() != epoch) continue;
    std::swap(kept, kept_[0]);
    return kept_[0];
  }
  return {};
}

// From the nearest map before, where that takes fewer walks than a pass over all slots.
PartialMaps::Shared PartialMaps::make(uint32_t shard, data::Epoch epoch) {
  Shared from;
  {
    const std::lock_guard lock(mutex_);
    for (const Shared& kept : kept_) {
      if (!kept || kept->epoch() > epoch) continue;
      if (!from || from->epoch() < kept->epoch()) from = kept;
    }
    kept_[1].reset();  // makes room: there is memory for two
  }
  if (has_whole(epoch)) return std::make_shared<const PartialMap>(*moves_, shard, *whole_);
  const bool is_near =
      from && data::number_of(epoch) - data::number_of(from->epoch()) < moves_->cycle_epochs();
  if (!is_near) return std::make_shared<const PartialMap>(*moves_, shard, epoch);
  auto map = std::make_shared<PartialMap>(*from);
  while (map->epoch() < epoch) map->advance(*moves_);
  return map;
}

// Not for the first map of all, which has a batch waiting for it and may be the only one. A job
// that goes on at a late epoch catches up in some epochs, in each of which that takes about as long
// as the walks do.
bool PartialMaps::has_whole(data::Epoch epoch) {
  if (!std::exchange(has_made_, true) || !WholeMap::is_worth_while(*moves_, epoch)) return false;
  if (!whole_) whole_.emplace(*moves_);
  uint64_t left = 1 + 2 * (moves_->cycle_of(epoch) + 1) / moves_->shards().count();
  for (; left > 0 && whole_->epoch() < epoch; --left) whole_->advance(*moves_);
  return whole_->epoch() == epoch;
}

}  // namespace millrace::loader
