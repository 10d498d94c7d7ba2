// WholeMap: which sample lies in each slot of all shards in one epoch, as a table.
//
// What a shard gets after an epoch lies in any other until then. Walked back (partial_moves.h), a
// sample takes a step a cycle, and the map of a shard takes the longer to make the later the epoch
// is; this table makes the moves of all shards instead, in every epoch as many. Cheaper for few
// shards or late epochs, and only where the table is not huge: 4 bytes a sample. For PartialMaps.
// Not thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "loader/order/partial_moves.h"

namespace millrace::loader {

class WholeMap {
 public:
  static constexpr uint64_t kSampleCountMax = uint64_t{1} << 23;

  // Of epoch 0. REQUIRES: at most kSampleCountMax samples
  explicit WholeMap(const PartialMoves& moves);

  // A move here takes about as long as half a step of a walk, and there are as many times more as
  // shards. Cheap enough without a comparison where there are few.
  static bool is_worth_while(const PartialMoves& moves, data::Epoch epoch) {
    const Shards& shards = moves.shards();
    return shards.sample_count() <= kSampleCountMax &&
           (shards.count() <= 16 || shards.count() <= 2 * moves.cycle_of(epoch));
  }

  data::Epoch epoch() const { return epoch_; }

  // By slot, but for the one that not every shard has, which keeps its sample.
  std::span<const uint32_t> samples_of(uint32_t shard) const {
    return std::span(samples_).subspan(shard * even_size_, even_size_);
  }

  // To the next epoch. `moves` as before.
  void advance(const PartialMoves& moves);

 private:
  static constexpr size_t kTogether = 128;

  struct Turns;

  void make_moves(const PartialMoves& moves, Turns& turns);

  data::Epoch epoch_{};
  uint64_t even_size_;
  std::vector<uint32_t> samples_;  // shard by shard
};

}  // namespace millrace::loader
