#include "loader/order/whole_map.h"

#include <algorithm>
#include <cassert>

namespace millrace::loader {

// Turns that are made together: their slots are all different.
struct WholeMap::Turns {
  std::vector<KeyedPermutation> orders;  // of the slots in the cycle, by shard
  std::vector<uint32_t> places;          // in samples_, kTogether of each shard
  std::vector<uint32_t> given;           // samples, likewise
  std::vector<uint32_t> targets;         // of all shards, turn after turn
  uint64_t first = 0;
  size_t count = 0;
};

WholeMap::WholeMap(const PartialMoves& moves)
    : even_size_(moves.shards().even_size()), samples_(moves.shards().count() * even_size_) {
  const Shards& shards = moves.shards();
  assert(shards.sample_count() <= kSampleCountMax);
  for (uint32_t shard = 0; shard < shards.count(); ++shard) {
    for (uint64_t slot = 0; slot < even_size_; ++slot) {
      const data::SampleId home = shards.at_home({.shard = shard, .index = slot});
      samples_[shard * even_size_ + slot] = static_cast<uint32_t>(data::index_of(home));
    }
  }
}

void WholeMap::advance(const PartialMoves& moves) {
  const uint32_t shard_count = moves.shards().count();
  Turns turns{.orders = {},
              .places = std::vector<uint32_t>(shard_count * kTogether),
              .given = std::vector<uint32_t>(shard_count * kTogether),
              .targets = std::vector<uint32_t>(shard_count * kTogether)};
  for (uint32_t shard = 0; shard < shard_count; ++shard) {
    turns.orders.push_back(moves.slots(moves.cycle_of(epoch_), shard));
  }
  for (; turns.first < moves.turn_count(); turns.first += kTogether) {
    turns.count = std::min<uint64_t>(kTogether, moves.turn_count() - turns.first);
    for (uint32_t shard = 0; shard < shard_count; ++shard) {
      const auto places = std::span(turns.places).subspan(shard * kTogether, turns.count);
      turns.orders[shard].fill(moves.first_place(epoch_) + turns.first, 1, places);
      for (size_t i = 0; i < places.size(); ++i) {
        places[i] += static_cast<uint32_t>(shard * even_size_);
        turns.given[shard * kTogether + i] = samples_[places[i]];
      }
    }
    make_moves(moves, turns);
  }
  epoch_ = data::Epoch{data::number_of(epoch_) + 1};
}

void WholeMap::make_moves(const PartialMoves& moves, Turns& turns) {
  const size_t shard_count = turns.orders.size();
  const auto targets = std::span(turns.targets).first(turns.count * shard_count);
  moves.targets_of(epoch_, turns.first, targets);
  for (size_t i = 0; i < turns.count; ++i) {
    for (size_t shard = 0; shard < shard_count; ++shard) {
      const uint32_t target = targets[i * shard_count + shard];
      samples_[turns.places[target * kTogether + i]] = turns.given[shard * kTogether + i];
    }
  }
}

}  // namespace millrace::loader
