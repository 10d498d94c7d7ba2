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

void PartialMap::advance(const PartialMoves& moves) {
  const KeyedPermutation own = moves.slots(moves.cycle_of(epoch_), shard_);
  std::vector<Slot> givers;
  std::vector<uint64_t> targets;  // slots of this shard, by giver
  for (uint64_t first = 0; first < moves.turn_count(); first += kTogether) {
    givers.clear();
    targets.clear();
    for (uint64_t turn = first; turn < std::min(first + kTogether, moves.turn_count()); ++turn) {
      const uint64_t place = moves.first_place(epoch_) + turn;
      const Slot giver = moves.giver_of({.place = place, .epoch = epoch_}, shard_);
      if (giver.shard == shard_) continue;  // the sample stays where it is
      givers.push_back(giver);
      targets.push_back(own.at(place));
    }
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
  const bool is_near =
      from && data::number_of(epoch) - data::number_of(from->epoch()) < moves_->cycle_epochs();
  if (!is_near) return std::make_shared<const PartialMap>(*moves_, shard, epoch);
  auto map = std::make_shared<PartialMap>(*from);
  while (map->epoch() < epoch) map->advance(*moves_);
  return map;
}

}  // namespace millrace::loader
